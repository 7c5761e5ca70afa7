"""The pages of the reference that are made from the code, as Markdown."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from django.core.management import load_command_class

from elicitation import conf
from elicitation.calls import rounds

BASE_DIR = Path(__file__).resolve().parent.parent.parent
PACKAGE = BASE_DIR / "elicitation"


def pages() -> dict[str, str]:
    """Return each page by the name of its file."""
    return {
        "python.md": python(),
        "settings.md": settings(),
        "signals.md": signals(),
        "checks.md": checks(),
        "commands.md": commands(),
        "api.md": api(),
        "engine.md": engine(),
    }


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table; a bar in a cell is escaped, and a line break a blank."""
    lines = [[re.sub(r"\s+", " ", cell).replace("|", "\\|") for cell in row] for row in rows]
    head = list(head)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *lines])


def prose(docstring: str | None) -> str:
    """Return a docstring as Markdown: its sections in bold, their entries as lists."""
    text = inspect.cleandoc(docstring or "").replace("``", "`")
    lines: list[str] = []
    section = ""
    for line in text.splitlines():
        if found := re.fullmatch(r"(Args|Returns|Raises):", line):
            section = found[1]
            lines += [f"**{section}**", ""]
        elif section and (entry := re.fullmatch(r"    ([\w, .`*]+): (.+)", line)):
            lines.append(
                f"* `{entry[1].strip('`')}`: {entry[2]}" if section != "Returns" else line.strip()
            )
        elif section and line.startswith("    "):
            lines.append(("  " if section != "Returns" else "") + line.strip())
        else:
            lines.append(line)
    return "\n".join(lines)


def public_names() -> Iterator[tuple[str, list[str]]]:
    """Yield the modules of ``docs/public.md``, each with its names."""
    page = (BASE_DIR / "docs" / "public.md").read_text("utf-8")
    part = page.partition("## Names to import")[2].partition("\n## ")[0]
    for module, cell in re.findall(r"^\| `([\w.]+)` \| (.+?) \| .+ \|$", part, re.MULTILINE):
        names = re.findall(r"`(\w+)`", cell)
        yield module, sorted(import_module(module).__all__) if names == ["__all__"] else names


def signature(function: Any) -> str:
    """Return how a function is called, as it stands in the source."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"```python\n{node.name}({ast.unparse(node.args)}){returns}\n```"


def python() -> str:
    parts = [
        "# Names to import",
        "What [is public](../public.md), with the text of its docstring.",
    ]
    for module, names in public_names():
        parts.append(f"## {module}")
        parts.append(prose(import_module(module).__doc__).partition("\n\n")[0])
        for name in names:
            thing = getattr(import_module(module), name)
            parts.append(f"### {name}")
            if inspect.isfunction(thing):
                parts.append(signature(thing))
            if inspect.isfunction(thing) or inspect.isclass(thing):
                parts.append(prose(thing.__doc__))
    return "\n\n".join(parts) + "\n"


def settings() -> str:
    rows = []
    for name in conf.NAMES:
        found = getattr(conf.Settings, name)
        default = (
            "" if name == "CONTENT_SECURITY_POLICY" else f"`{getattr(conf.settings, name)!r}`"
        )
        kind = found.fget.__annotations__["return"]
        rows.append([f"`ELICITATION_{name}`", f"`{kind}`", default, prose(found.__doc__)])
    head = ["setting", "type", "default", "what it says"]
    text = (
        "# Settings, from the code\n\n"
        "[The page about settings](../settings.md) says why each default is what it is.\n"
    )
    return f"{text}\n{table(head, rows)}\n"


def signals() -> str:
    source = (PACKAGE / "signals.py").read_text("utf-8")
    found = re.findall(r"((?:^#: .*\n|^# .*\n)+)^(\w+) = Signal\(\)", source, re.MULTILINE)
    rows = [
        [f"`{name}`", re.sub(r"^#:? ", "", said, flags=re.MULTILINE).replace("``", "`")]
        for said, name in found
    ]
    text = (
        "# Signals, from the code\n\n"
        "[The page about signals](../signals.md) says what a receiver can rely on.\n"
    )
    return f"{text}\n{table(['signal', 'when it is sent'], rows)}\n"


def text_of(node: ast.expr | None) -> str:
    """Return the text that an expression makes, with ``…`` for what is known only when it runs."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values
        )
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "…"


def checks() -> str:
    tree = ast.parse((PACKAGE / "checks.py").read_text("utf-8"))
    rows = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        options = {option.arg: option.value for option in node.keywords}
        name = options.get("id")
        if isinstance(name, ast.Constant) and isinstance(node.func, ast.Name):
            hint = text_of(options.get("hint"))
            first = text_of(node.args[0] if node.args else None)
            rows.append([f"`{name.value}`", node.func.id, first, hint])
    text = (
        "# Checks, from the code\n\n"
        "What `manage.py check` says. `…` stands for what is known only when it runs.\n"
    )
    return f"{text}\n{table(['id', 'level', 'message', 'hint'], sorted(rows))}\n"


def commands() -> str:
    parts = ["# Commands, from the code", "The `--help` of each command."]
    for path in sorted((PACKAGE / "management" / "commands").glob("[a-z]*.py")):
        parser = load_command_class("elicitation", path.stem).create_parser("manage.py", path.stem)
        parts += [f"## {path.stem}", f"```text\n{parser.format_help().strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def api() -> str:
    document = yaml.safe_load((BASE_DIR / "docs" / "openapi.yaml").read_text("utf-8"))
    rows = [
        [
            f"`{method.upper()} {path}`",
            said.get("summary", ""),
            ", ".join(f"`{status}`" for status in said["responses"]),
        ]
        for path, methods in document["paths"].items()
        for method, said in methods.items()
    ]
    text = (
        "# Endpoints, from the OpenAPI document\n\n"
        "[The page about the API](../api.md) has the rules for all of them.\n"
    )
    return f"{text}\n{table(['request', 'what it does', 'statuses'], rows)}\n"


def comments(enum: str) -> dict[str, str]:
    """Return what the comments of ``calls/rounds.py`` say of each member of an enum."""
    source = (PACKAGE / "calls" / "rounds.py").read_text("utf-8")
    body = re.split(rf"^class {enum}\(.*$", source, flags=re.MULTILINE)[1]
    body = re.split(r"^\S", body, flags=re.MULTILINE)[0]
    found = re.findall(r"((?:^    #: .*\n)+)^    (\w+) = ", body, re.MULTILINE)
    return {name: re.sub(r"^    #: ", "", said, flags=re.MULTILINE) for said, name in found}


def engine() -> str:
    said = comments("State")
    parts = [
        "# The engine's tables, from the code",
        "The states of a call (`elicitation.calls.rounds`). No other move can happen.",
        table(
            ["state", "what it means", "event: next state"],
            [
                [
                    f"`{state.value}`",
                    said[state.name],
                    "<br>".join(
                        f"`{event.value}`: `{after.value}`"
                        for event, after in rounds.MOVES.get(state, {}).items()
                    )
                    or "the pass ends",
                ]
                for state in rounds.State
            ],
        ),
        "## Where an answer is",
    ]
    said = comments("Answer")
    parts.append(
        table(
            ["place", "what it means", "where it can go"],
            [
                [
                    f"`{place.value}`",
                    said[place.name],
                    ", ".join(sorted(f"`{to.value}`" for to in after)) or "nowhere",
                ]
                for place, after in rounds.ANSWER_MOVES.items()
            ],
        )
    )
    parts.append("## What a reply says of the answers that were sent")
    settled = [[f"`{event.value}`", f"`{to.value}`"] for event, to in rounds.SETTLED_BY.items()]
    parts.append(table(["reply", "the answers are"], settled))
    return "\n\n".join(parts) + "\n"
