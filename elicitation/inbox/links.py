"""Where people are led back to: their conversation, and the result of the call.

Both are URLs that the site names. None is what a server wrote.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from django.utils.http import url_has_allowed_host_and_scheme

from ..conf import settings
from ..models import Elicitation
from .rows import log_fields

logger = logging.getLogger("elicitation")

Hook = Callable[..., object]


def scope_url(elicitation: Elicitation) -> str:
    """Return where the conversation of this elicitation is, or nothing.

    ``ELICITATION_SCOPE_URL`` says so, by its scope.
    """
    return _url(elicitation, "SCOPE_URL", lambda: settings.SCOPE_URL, elicitation.scope)


def result_url(elicitation: Elicitation) -> str:
    """Return where the result of its call can be seen, or nothing while there is none.

    ``ELICITATION_RESULT_URL`` says so, by the id of the parked call.
    """
    if elicitation.delivered_at is None:
        return ""
    about = elicitation.parked_call_id
    return _url(elicitation, "RESULT_URL", lambda: settings.RESULT_URL, about)


def _url(
    elicitation: Elicitation, name: str, read: Callable[[], Hook | None], about: object
) -> str:
    """Return what the site's hook returns; nothing if it fails, or if that is no URL.

    It is read and called after the answer was stored. An exception would look as if it was not.
    """
    try:
        hook = read()
        found = hook(about) if hook else None
    except Exception:
        logger.exception(
            "A hook of the site failed; its link is left out",
            extra={**log_fields(elicitation), "setting": f"ELICITATION_{name}"},
        )
        return ""
    if not found:
        return ""
    url = str(found)
    # Browsers skip a tab, and take a backslash for a slash: "/\t/host" would lead elsewhere.
    is_path = url.startswith("/") and url_has_allowed_host_and_scheme(url, allowed_hosts=None)
    if is_path or url.startswith(("https://", "http://")):
        return url
    logger.warning(
        "What a hook of the site returned is neither a path nor an http URL; it is left out",
        extra={**log_fields(elicitation), "setting": f"ELICITATION_{name}"},
    )
    return ""
