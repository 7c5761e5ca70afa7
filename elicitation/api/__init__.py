"""The API for chat front ends and other programs: ``include("elicitation.api.urls")``.

The same rules as the pages and nothing more: what happens to an elicitation is in ``inbox``. The
only part of the app that imports Django REST framework.
"""
