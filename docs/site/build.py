"""The site of the documentation: ``python -m docs.site.build``, into ``build/docs``.

The pages of ``docs`` and of the project's root are the source, where they stand. What is made from
the code is put beside them. Then every link, and the way to every page, is checked.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

BASE_DIR = Path(__file__).resolve().parent.parent.parent
BUILD = BASE_DIR / "build"
#: Pages of the root that belong to the site.
ROOT_PAGES = ("README", "CONTRIBUTING", "CODE_OF_CONDUCT", "SECURITY", "CHANGELOG")
START = "docs/README"
CLICKS = 3

MADE = """
## Made from the code

| page | for whom |
|---|---|
| [Names to import](reference/python.md) | who writes Python: public names and docstrings |
| [Settings, from the code](reference/settings.md) | who wants types and defaults at a glance |
| [Signals, from the code](reference/signals.md) | who looks for a signal |
| [Checks, from the code](reference/checks.md) | who wants the text of a check |
| [Commands, from the code](reference/commands.md) | who wants the options of a command |
| [Endpoints, from the OpenAPI document](reference/api.md) | who wants every endpoint at a glance |
| [The engine's tables, from the code](reference/engine.md) | who asks what a call can do next |
"""


def with_toctrees(text: str, more: Iterable[str] = ()) -> str:
    """Return an index with a hidden table of contents after each of its tables.

    The index says once, in its tables, what there is and in which order.
    """
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    done = []
    for part in parts:
        heading = re.match(r"## (.+)", part)
        rows = "\n".join(re.findall(r"^\|.*", part, re.MULTILINE))
        links = re.findall(r"\]\(([\w/-]+\.md)\)", rows)
        done.append(part.rstrip() + "\n\n")
        if links:
            done.append(toctree(heading[1] if heading else "", links))
    if more:
        done.append(toctree("Project", more))
    return "".join(done)


def toctree(caption: str, pages: Iterable[str]) -> str:
    title = [f":caption: {caption}"] if caption else []
    names = [page.removesuffix(".md") for page in pages]
    return "\n".join(["```{toctree}", ":hidden:", *title, "", *names, "```", "", ""])


def put_together(folder: Path) -> None:
    """Write the source of the site into a folder, laid out as the project is."""
    from . import reference

    for name in ROOT_PAGES:
        shutil.copy(BASE_DIR / f"{name}.md", folder)
    docs = folder / "docs"
    shutil.copytree(BASE_DIR / "docs", docs, ignore=shutil.ignore_patterns("site", "__pycache__"))
    (docs / "reference").mkdir()
    for name, text in reference.pages().items():
        (docs / "reference" / name).write_text(text, "utf-8")
    index = docs / "README.md"
    text = index.read_text("utf-8") + MADE
    index.write_text(with_toctrees(text, [f"/{name}" for name in ROOT_PAGES]), "utf-8")
    decisions = docs / "decisions" / "README.md"
    decisions.write_text(with_toctrees(decisions.read_text("utf-8")), "utf-8")


class Page(HTMLParser):
    """What a page of the site links to, loads, and can be linked to by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.ids |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        if tag in ("script", "img", "iframe") and "src" in found:
            self.loads.append(found["src"])
        if tag == "link" and found.get("rel") in ("stylesheet", "icon", "preload"):
            self.loads.append(found.get("href", ""))


def problems(site: Path) -> list[str]:
    """Return what is wrong with a site: dead links, what comes from elsewhere, pages far away."""
    pages = {
        path: Page(path.read_text("utf-8"))
        for path in site.rglob("*.html")
        if "_static" not in path.parts
    }
    found = []
    leads: dict[Path, set[Path]] = {path: set() for path in pages}
    for path, page in pages.items():
        here = path.relative_to(site)
        found += [f"{here} loads {load}" for load in page.loads if urlsplit(load).netloc]
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                found.append(f"{here} links to {link}, which is not there")
            elif target in pages:
                leads[path].add(target)
                anchor = unquote(parts.fragment)
                if anchor and anchor not in pages[target].ids:
                    found.append(f"{here} links to {link}, which has no such heading")
    reached = {site / f"{START}.html"}
    for _ in range(CLICKS):
        reached |= {target for path in reached for target in leads[path]}
    # Where a browser comes to first, and what Sphinx adds.
    others = {site / name for name in ("index.html", "genindex.html", "search.html")}
    found += [
        f"{path.relative_to(site)} is more than {CLICKS} clicks from the start"
        for path in sorted(set(pages) - reached - others)
    ]
    return found


def main() -> int:
    import django
    from django.conf import settings

    settings.configure(
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "elicitation"]
    )
    django.setup()
    source, site = BUILD / "docs-source", BUILD / "docs"
    for folder in (source, site):
        shutil.rmtree(folder, ignore_errors=True)
    source.mkdir(parents=True)
    put_together(source)
    here = str(Path(__file__).parent)
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    ended = subprocess.run([*command, "-c", here, str(source), str(site)], check=False)
    if ended.returncode:
        return ended.returncode
    shutil.copy(Path(here) / "index.html", site)
    found = problems(site.resolve())
    sys.stdout.write("\n".join([*found, f"{site.relative_to(BASE_DIR)}: {len(found)} problems\n"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
