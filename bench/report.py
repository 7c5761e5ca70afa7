"""Writes the results up, in ``docs/performance.md`` and the pages beside it."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import django

Found = Mapping[str, Any]


def write(found: Sequence[Found], docs: Path) -> None:
    """Put the results of ``bench.database`` in the place of the older ones."""
    put(docs, "measured", _results(found))
    (docs / "performance-plans.md").write_text("\n".join([*_plans(found), ""]))
    images = docs / "images"
    images.mkdir(exist_ok=True)
    (images / "performance.svg").write_text(picture(found))


def write_flow(found: Found, docs: Path) -> None:
    """Put the results of ``bench.flow`` in the place of the older ones."""
    put(docs, "flow", _flow(found))


def put(docs: Path, name: str, lines: Iterable[str]) -> None:
    """Write lines between the two marks of this name in ``docs/performance.md``."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    page = docs / "performance.md"
    before, _mark, rest = page.read_text().partition(begin)
    _old, _mark, after = rest.partition(end)
    text = "\n".join(lines)
    page.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def _flow(found: Found) -> Iterator[str]:
    yield (
        f"Measured on {machine()}, {found['database']}, at {commit()}: {found['flows']} flows of "
        "each kind, in turn."
    )
    yield ""
    yield "| | median, ms | middle half, ms | CPU, ms | requests | statements | compared with it |"
    yield "|---|---:|---:|---:|---:|---:|---|"
    for kind, one in found["kinds"].items():
        low, _median, high = one["quartiles"]
        takes = "; ".join(
            f"{line['ours']} takes {line['ratio']:.2f} times as long, {_must(line, '≤', 'most')}"
            for line in found["ratios"]
            if line["kind"] == kind
        )
        yield (
            f"| {kind} | {one['median']:.1f} | {low:.1f} to {high:.1f} | {one['cpu']:.1f} | "
            f"{_sum(one, 'requests')} | {_sum(one, 'statements')} | {takes} |"
        )
    yield ""
    yield "| step | median, ms | statements | commits | hops into a thread | requests |"
    yield "|---|---:|---:|---:|---:|---:|"
    for kind, one in found["kinds"].items():
        # Only ours counts commits and hops; LangGraph's driver commits each statement by itself.
        if not kind.startswith("ours"):
            continue
        for step, counts in one["counts"].items():
            numbers = " | ".join(
                str(counts.get(what, 0)) for what in ("statements", "commits", "hops", "requests")
            )
            yield f"| {kind}: {step} | {one['steps'][step]:.1f} | {numbers} |"


def _sum(one: Found, what: str) -> int:
    return sum(counts.get(what, 0) for counts in one["counts"].values())


def _results(found: Sequence[Found]) -> Iterator[str]:
    yield f"Measured on {machine()}, at {commit()}."
    yield ""
    yield "![Each ratio as a bar, and what it must be at least](images/performance.svg)"
    for one in found:
        yield ""
        yield f"### {one['database']}"
        yield ""
        yield "| | µs | statements | bytes | baseline | baseline, µs | ratio | must be |"
        yield "|---|---:|---:|---:|---|---:|---:|---|"
        for line in one["results"]:
            size = "" if line["bytes"] is None else f"{line['bytes']:,}"
            yield (
                f"| {line['name']} | {line['ours']:,.0f} | {line['statements']} | {size} | "
                f"{line['baseline_name']} | {line['baseline']:,.0f} | {line['ratio']:.2f} | "
                f"{_must(line, '≥', 'least')} |"
            )
        if not one["growth"]:
            continue
        sizes = _sizes(one)
        yield ""
        yield f"| µs with rows | {' | '.join(f'{size:,}' for size in sizes)} | factor | must be |"
        yield f"|---|{'---:|' * len(sizes)}---:|---|"
        for line in one["growth"]:
            times = " | ".join(f"{line['microseconds'][str(size)]:,.0f}" for size in sizes)
            must = _must(line, "≤", "most")
            yield f"| {line['name']} | {times} | {line['factor']:.2f} | {must} |"


def _plans(found: Sequence[Found]) -> Iterator[str]:
    yield "# How the databases read the tables"
    yield ""
    yield (
        "`python -m bench --write` makes this page: the `EXPLAIN` of each statement of an "
        "operation, with the tables as large as the benchmark makes them. A line that reads a "
        "whole table makes `--check` fail. The times are in [performance.md](performance.md)."
    )
    yield ""
    yield f"At {commit()}."
    for one in found:
        if not one["growth"]:
            continue
        yield ""
        yield f"## {one['database']}, {_sizes(one)[-1]:,} rows"
        yield ""
        yield "```text"
        for line in one["growth"]:
            yield from dict.fromkeys(f"{line['name']}: {plan}" for plan in line["plans"])
        yield "```"


def _sizes(one: Found) -> list[int]:
    return sorted(int(size) for size in one["growth"][0]["microseconds"])


def _must(line: Mapping[str, Any], sign: str, key: str) -> str:
    if line[key] is None:
        return ""
    return f"{sign} {line[key]:.2f}: {'holds' if line['holds'] else '**does not hold**'}"


def machine() -> str:
    """The processor and the programs that matter."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    cores = 0
    if info.exists():
        for line in info.read_text().splitlines():
            key, _colon, value = line.partition(":")
            if key.strip() == "model name":
                name, cores = value.strip(), cores + 1
    return (
        f"{name}, {cores or '?'} cores, Python {platform.python_version()}, "
        f"Django {django.get_version()}"
    )


def commit() -> str:
    """The commit that was measured."""
    ran = subprocess.run(
        ["git", "describe", "--always", "--dirty"],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
    )
    return f"commit `{ran.stdout.strip()}`" if ran.returncode == 0 else "no commit yet"


def picture(found: Sequence[Found]) -> str:
    """The ratios as bars; a stroke stands where a bar must reach."""
    lines = [
        (f"{one['database'].split()[0]}: {line['name']}", line["ratio"], line["least"])
        for one in found
        for line in one["results"]
    ]
    left, wide, high = 390, 300, 22
    height = high * len(lines) + 20
    size = f'width="{left + wide + 60}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="12">',
        "<title>Speed as a share of the baseline; 1 is as fast</title>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, (name, ratio, least) in enumerate(lines):
        y = 10 + number * high
        end = left + min(ratio, 1) * wide
        parts.append(f'<text x="{left - 8}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        parts.append(
            f'<rect x="{left}" y="{y}" width="{min(ratio, 1) * wide:.0f}" height="16" '
            'fill="#4878a8"/>'
        )
        parts.append(f'<text x="{end + 6:.0f}" y="{y + 12}">{ratio:.2f}</text>')
        if least is not None:
            x = left + least * wide
            parts.append(
                f'<line x1="{x:.0f}" x2="{x:.0f}" y1="{y - 2}" y2="{y + 18}" stroke="#b03020" '
                'stroke-width="2"/>'
            )
    return "\n".join([*parts, "</svg>", ""])
