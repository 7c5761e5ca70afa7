"""Answers that look like a credential. A form does not send them.

MCP 2026-07-28, client/elicitation: servers MUST NOT use form mode to request sensitive
information. The answer to a form passes through the host and often through the context of an AI
model. `characters.names_a_credential` checks the names of properties.
"""

import base64
import json
import re
from typing import Final

from .characters import see_through

_PRIVATE_KEY_FORMAT: Final = (
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-[0-9]"
)
# Each pattern starts with its issuer's own prefix and ends in one run of a single character
# class. A failed attempt stops within that run, so the search takes linear time.
_ISSUER_FORMATS: Final = {
    "AWS access key": r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    "GitHub token": r"(?:gh[pousr]_[A-Za-z0-9]{30}|github_pat_[A-Za-z0-9_]{22})",
    "GitLab token": r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|agent|oas)-[A-Za-z0-9_-]{20}",
    "Slack token": r"(?:xox[abeoprs]-[A-Za-z0-9-]{10}|xapp-[0-9]-[A-Za-z0-9-]{10})",
    "Anthropic key": r"sk-ant-[A-Za-z0-9_-]{16}",
    "OpenAI key": r"sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{16}|[A-Za-z0-9]{20})",
    "OpenRouter key": r"sk-or-v1-[0-9a-f]{32}",
    "Stripe key": r"(?:[sr]k_(?:live|test)_[A-Za-z0-9]{16}|whsec_[A-Za-z0-9+/]{16})",
    "Google key": r"(?:AIza[A-Za-z0-9_-]{35}|GOCSPX-[A-Za-z0-9_-]{20}|ya29\.[A-Za-z0-9_-]{20})",
    "npm token": r"npm_[A-Za-z0-9]{36}",
    "PyPI token": r"pypi-(?:AgE[A-Za-z0-9_-]{16}|[A-Za-z0-9_-]{50})",
    "SendGrid key": r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16}",
    "Twilio key": r"SK[0-9a-f]{32}(?![A-Za-z0-9])",
    "Hugging Face token": r"hf_[A-Za-z0-9]{30}",
    "DigitalOcean token": r"do[opr]_v1_[0-9a-f]{64}",
    "Databricks token": r"dapi[0-9a-f]{32}",
    "Shopify token": r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
    "Vault token": r"hvs\.[A-Za-z0-9_-]{24}",
    "Telegram bot token": r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}",
}
#: The same formats, and that of a JSON Web Token, as one regular expression that JavaScript reads
#: as well. It is for text in NFKD of which only the ASCII characters are left, and knows no JSON:
#: in doubt a text is a credential.
BROWSER_PATTERN: Final = (
    rf"(?<![A-Za-z0-9])(?:{'|'.join(_ISSUER_FORMATS.values())})"
    rf"|{_PRIVATE_KEY_FORMAT}|(?<![A-Za-z0-9_-])e[A-Za-z0-9_-]{{9,}}\.[A-Za-z0-9_-]{{2,}}\."
)
_ISSUED: Final = re.compile(
    "(?<![A-Za-z0-9])(?:"
    + "|".join(f"(?P<f{i}>{form})" for i, form in enumerate(_ISSUER_FORMATS.values()))
    + ")"
)
_PRIVATE_KEY: Final = re.compile(_PRIVATE_KEY_FORMAT)
# A look-ahead consumes nothing: a token can also begin after an ordinary word and a dot.
_THREE_PARTS: Final = re.compile(
    r"(?<![A-Za-z0-9_-])(?=(e[A-Za-z0-9_-]{9,4095})\.[A-Za-z0-9_-]{2,}\.)"
)


def _is_json_object(part: str) -> bool:
    try:
        header = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        return False
    return isinstance(header, dict)


def looks_like_a_credential(text: str) -> str | None:
    """The name of the first known credential format in `text`, or None.

    Only formats with a prefix of their issuer are known. An ordinary password cannot be told from
    other text. Invisible characters are ignored. Takes linear time.
    """
    text = see_through(text)
    if _PRIVATE_KEY.search(text):
        return "private key"
    issued = _ISSUED.search(text)
    if issued is not None and issued.lastgroup is not None:
        return tuple(_ISSUER_FORMATS)[int(issued.lastgroup[1:])]
    if any(_is_json_object(match[1]) for match in _THREE_PARTS.finditer(text)):
        return "JSON Web Token"
    return None
