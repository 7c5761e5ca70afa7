"""Writes the results up: tables and a picture, between two marks in ``docs/performance.md``."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import django

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
Found = Mapping[str, Any]


def write(found: Sequence[Found], docs: Path) -> None:
    """Put the results in the place of the older ones."""
    page = docs / "performance.md"
    before, _mark, rest = page.read_text().partition(BEGIN)
    _old, _mark, after = rest.partition(END)
    text = "\n".join(_text(found))
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")
    images = docs / "images"
    images.mkdir(exist_ok=True)
    (images / "performance.svg").write_text(picture(found))


def _text(found: Sequence[Found]) -> Iterator[str]:
    yield f"Measured on {machine()}, at {commit()}."
    yield ""
    yield "![Each ratio as a bar, and what it must be at least](images/performance.svg)"
    for one in found:
        yield ""
        yield f"### {one['database']}"
        yield ""
        yield "| | µs | floor | floor, µs | ratio | must be |"
        yield "|---|---:|---|---:|---:|---|"
        for line in one["results"]:
            yield (
                f"| {line['name']} | {line['ours']:,.0f} | {line['floor_name']} | "
                f"{line['floor']:,.0f} | {line['ratio']:.2f} | {_must(line, '≥', 'least')} |"
            )
        if not one["growth"]:
            continue
        sizes = sorted(int(size) for size in one["growth"][0]["microseconds"])
        yield ""
        yield f"| µs with rows | {' | '.join(f'{size:,}' for size in sizes)} | factor | must be |"
        yield f"|---|{'---:|' * len(sizes)}---:|---|"
        for line in one["growth"]:
            times = " | ".join(f"{line['microseconds'][str(size)]:,.0f}" for size in sizes)
            must = _must(line, "≤", "most")
            yield f"| {line['name']} | {times} | {line['factor']:.2f} | {must} |"
        yield ""
        yield f"How {one['database']} reads the tables at {sizes[-1]:,} rows (`EXPLAIN`):"
        yield ""
        yield "```text"
        for line in one["growth"]:
            yield from dict.fromkeys(f"{line['name']}: {plan}" for plan in line["plans"])
        yield "```"


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
        "<title>Speed as a share of the floor; 1 is as fast</title>",
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
