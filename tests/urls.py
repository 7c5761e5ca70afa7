"""The tests run on the demo site's addresses: they hold everything that a site mounts."""

from project.urls import urlpatterns

__all__ = ["urlpatterns"]
