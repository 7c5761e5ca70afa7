"""JSON, and nothing that only looks like it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from ..conf import settings as app_settings
from ..core import MAX_FORM_NUMBER_CHARS
from .errors import ApiError, too_large


class StrictJSONParser(BaseParser):
    """JSON in UTF-8 (RFC 8259), no longer than ``ELICITATION_API_MAX_BYTES``.

    Refused beside what is no JSON: ``NaN`` and ``Infinity``, a name that is given twice, a name
    that is no valid Unicode, and what is nested too deeply.
    """

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body as plain Python types.

        Raises:
            ApiError: ``too_large`` or ``not_json``.
        """
        limit = app_settings.API_MAX_BYTES
        # No more than that is ever read: what a request says of its length may be wrong.
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise too_large()
        try:
            return json.loads(
                body.decode("utf-8"),
                object_pairs_hook=_object,
                parse_int=_whole_number,
                parse_constant=_no_constant,
            )
        except (ValueError, RecursionError):
            # The parser's own error quotes the body.
            raise ApiError(400, "not_json", "The body is not valid JSON in UTF-8.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    for name in found:
        # Names are repeated in errors; half a surrogate pair could not be sent back.
        name.encode("utf-8")
    return found


def _whole_number(literal: str) -> int | float:
    # To read a long one takes time that grows with the square of its length. It is out of any
    # range, and is refused as that under the name it was sent for.
    if len(literal) > MAX_FORM_NUMBER_CHARS:
        return -math.inf if literal.startswith("-") else math.inf
    return int(literal)


def _no_constant(literal: str) -> object:
    raise ValueError
