from django.apps import AppConfig


class DemoConfig(AppConfig):
    name = "project.demo"
    label = "demo"
    verbose_name = "Demo agent"

    def ready(self) -> None:
        from project.demo import receivers  # noqa: F401
