"""Each promise, and each number, on the pages for operators names the test that shows it."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import BASE_DIR

PAGES = ("SECURITY.md", "docs/operations.md", "docs/security.md")

#: The parts of each page that promise something, by their headings: every sentence there names a
#: test. In ``docs/operations.md`` a paragraph, a list or a row of a table is one promise.
PROMISING = {
    "SECURITY.md": {"What the app defends"},
    "docs/security.md": {
        "A server that wants more than it should get",
        "An answer that goes astray",
        "People who should not",
    },
    "docs/operations.md": {
        "Calls that nobody went on with",
        "What a killed process leaves behind",
        "Calls that wait",
        "Open pages",
        "Cleaning up",
        "People who leave",
        "After a restore, or a failover",
        "The audit trail",
        "What is put to nobody",
        "The admin",
        "Switching a server off",
        "Figures and timelines",
        "What operators do with requests",
        "Rules for tools",
        "From the command line",
    },
}
#: What promises nothing there: it leads on, or says what the site has to do.
LEADING = re.compile(
    r"$|An MCP server is not|These are the promises|\[docs/security.md\] explains|Logs of SQL"
    r"|See \[|\[Service\]|\*/5 |elicitation_cleanup: |Then it does that|It$"
    r"|!\[|\* First stop|The command$|A policy can be narrower|never delete"
    r"|Each elicitation's row says|Permissions beside"
)

#: A number, in digits or in words. "One" only where it counts; a version is no number.
NUMBER = re.compile(
    r"(?<!psycopg )\b(?:\d[\d.,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
    r"|sixteen|twenty|thirty|forty|fifty|sixty|(?:hundred|thousand|million)s?|half|dozen|doubles?|twice"
    r"|(?<!at )once|an hour|a minute|a second"
    r"|(?<!the )(?<!another )(?<!than )one(?= \w)(?! (?:of|that|another|there)\b))\b",
    re.IGNORECASE,
)
NOTE = re.compile(r"\[\^([\w-]+)\]")


def text_of(page: str) -> str:
    return (BASE_DIR / page).read_text("utf-8")


def notes_of(page: str) -> dict[str, list[str]]:
    """Return the tests that each footnote of a page names."""
    found = re.findall(r"^\[\^([\w-]+)\]: (.+(?:\n  .+)*)$", text_of(page), re.MULTILINE)
    return {name: re.findall(r"`([^`]+)`", line) for name, line in found}


def sentences(page: str) -> Iterator[str]:
    """Yield the sentences of a page, and each cell of a table by its sentences.

    Left out: code, the targets of links, headings and footnotes.
    """
    text = re.sub(r"^```.*?^```", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?:    |#|\[\^).*(?:\n  \S.*)*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    for block in re.split(r"\n\s*\n", text):
        is_table = block.lstrip().startswith("|")
        parts = re.split(r"\||\n", block) if is_table else re.split(r"^[*-] ", block, flags=re.M)
        for part in parts:
            yield from re.split(r"(?<=[.!?])\s+", " ".join(part.split()))


def promises(page: str) -> Iterator[str]:
    """Yield what a page promises: sentences, or whole paragraphs, lists and rows."""
    text = re.sub(r"^```.*?^```|^<!--.*?-->", "", text_of(page), flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\[\^.*(?:\n  .*)*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\]\([^)]*\)", "]", re.sub(r"`[^`]*`", "code", text))
    for part in re.split(r"^(?=#)", text, flags=re.MULTILINE):
        heading, _, body = part.partition("\n")
        if heading.strip("# ") in PROMISING[page]:
            for block in re.split(r"\n\s*\n", body):
                yield from itertools.filterfalse(LEADING.match, split(block, page))


def split(block: str, page: str) -> list[str]:
    """Return the promises of a paragraph, a list, or a table without its first column."""
    # The first two rows are the head.
    rows = re.findall(r"^\|[^|]*\|(.*)\|$", block, re.MULTILINE)[2:]
    items = [" ".join(item.split()) for item in rows or re.split(r"^- ", block, flags=re.M)]
    if page == "docs/operations.md":
        return items
    return [sentence for item in items for sentence in re.split(r"(?<=[.!?])\s+", item)]


def missing(sentences_with_numbers: Iterator[str], notes: dict[str, list[str]]) -> list[str]:
    """Return the sentences that have a number and name no test."""
    return [
        sentence
        for sentence in sentences_with_numbers
        if NUMBER.search(NOTE.sub("", sentence))
        and not any(notes.get(name) for name in NOTE.findall(sentence))
    ]


def names_of_tests(path: Path) -> set[str]:
    """Return the tests of a module, as pytest names them; those of one database, too."""
    found: set[str] = set()

    def walk(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(f"{prefix}{child.name}")
            elif isinstance(child, ast.ClassDef):
                walk(child, f"{prefix}{child.name}::")
            else:
                walk(child, prefix)

    walk(ast.parse(path.read_text("utf-8")), "")
    return {name for name in found if name.rpartition("::")[2].startswith("test_")}


@pytest.mark.parametrize("name", PAGES)
def test_each_sentence_with_a_number_names_its_test(name: str) -> None:
    assert missing(sentences(name), notes_of(name)) == []


@pytest.mark.parametrize("name", PAGES)
def test_each_promise_names_its_test(name: str) -> None:
    notes = notes_of(name)
    found = list(promises(name))
    assert len(found) > 10
    assert [
        each for each in found if not any(notes.get(note) for note in NOTE.findall(each))
    ] == []


@pytest.mark.parametrize("name", PAGES)
def test_each_test_that_is_named_is_there(name: str) -> None:
    notes = notes_of(name)
    assert notes
    for note, tests in notes.items():
        assert tests, note
        for test in tests:
            path, _, inside = test.partition("::")
            assert (BASE_DIR / path).is_file(), test
            assert inside in names_of_tests(BASE_DIR / path), test


@pytest.mark.parametrize("name", PAGES)
def test_each_footnote_is_used_and_there(name: str) -> None:
    used = NOTE.findall(re.sub(r"^\[\^.*$", "", text_of(name), flags=re.MULTILINE))
    assert set(used) == set(notes_of(name))


def test_numbers_are_found_however_they_are_written() -> None:
    notes = {"known": ["tests/x.py::test_y"], "empty": []}
    found = [
        "At most 100 wait.",
        "Ten rounds a call.",
        "Half of them.",
        "It is sent once.",
        "Nobody is asked twice.",
        "It takes one query for all.",
        "Up to an hour.",
        "Within 10 seconds[^unknown].",
        "Within 10 seconds[^empty].",
    ]
    passed = [
        "Within 10 seconds[^known].",
        "It records this at once.",
        "It has the one that was tested.",
        "A row of another one.",
        "With psycopg 3 it listens.",
        "Note [^7].",
    ]
    assert missing(iter(found + passed), notes) == found


def test_a_test_inside_a_condition_and_one_of_a_class_are_found(tmp_path: Path) -> None:
    module = tmp_path / "test_x.py"
    module.write_text("if x:\n  def test_a(): ...\nclass TestB:\n  def test_c(self): ...\n")
    assert names_of_tests(module) == {"test_a", "TestB::test_c"}
