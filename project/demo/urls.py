from django.urls import path

from project.demo import views

app_name = "demo"
urlpatterns = [
    path("", views.tools, name="tools"),
    path("runs/", views.start, name="start"),
    path("runs/<uuid:run_id>/", views.run, name="run"),
    path("chat/", views.chat, name="chat"),
    path("chat/runs/", views.chat_start, name="chat_start"),
    path("chat/runs/<uuid:run_id>/", views.chat_run, name="chat_run"),
]
