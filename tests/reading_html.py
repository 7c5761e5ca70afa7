"""A page as its elements and its text, read by Python's own parser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django.http import HttpResponse


@dataclass
class Element:
    """A start tag with its attributes, and the text up to its end tag."""

    tag: str
    attrs: dict[str, str]
    text: str = ""

    @property
    def classes(self) -> set[str]:
        return set(self.attrs.get("class", "").split())


VOID = {"meta", "link", "input", "br", "img", "hr", "base", "path", "rect", "circle"}


@dataclass
class Page(HTMLParser):
    """The elements of a page in their order."""

    elements: list[Element] = field(default_factory=list)

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements = []
        self._open: list[Element] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.elements.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert tag in VOID or self._open[-1].tag == tag, f"</{tag}> closes {self._open[-1].tag}"
        if tag not in VOID:
            self._open.pop()

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    @property
    def text(self) -> str:
        """The text of the body, blanks collapsed."""
        return " ".join(self.one("body").text.split())

    def all(self, tag: str, **attrs: str) -> list[Element]:
        """Return the elements of a name with these attributes (``class_`` is one class)."""
        wanted = attrs.pop("class_", None)
        return [
            element
            for element in self.elements
            if element.tag == tag
            and (wanted is None or wanted in element.classes)
            and all(element.attrs.get(name) == value for name, value in attrs.items())
        ]

    def one(self, tag: str, **attrs: str) -> Element:
        found = self.all(tag, **attrs)
        assert len(found) == 1, f"{len(found)} <{tag}> with {attrs}"
        return found[0]

    def skeleton(self) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
        """Return every element with its attributes, as they would be with any text."""
        return [(element.tag, tuple(element.attrs.items())) for element in self.elements]


def page(response: HttpResponse, status: int = 200) -> Page:
    """Return the page that was answered."""
    assert response.status_code == status, response.status_code
    return Page(response.content.decode())
