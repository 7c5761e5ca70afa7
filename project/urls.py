from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("project.demo.urls")),
    path("accounts/", include("django.contrib.auth.urls")),
    path("admin/", admin.site.urls),
    path("elicitation/", include("elicitation.urls")),
    path("api/elicitation/", include("elicitation.api.urls")),
]
