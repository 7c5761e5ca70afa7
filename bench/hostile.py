"""What the worst inputs cost: ``python -m bench.hostile``.

Each schema is as large as it can be without being refused, and made of the characters that take
the longest to look at. Prints the CPU time of reading the request, of the page that shows it, and
of a list of ten in the admin; the worst first, with what each may take at most. Ends with 1 where
one takes longer. Makes a database of its own and removes it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

#: Milliseconds of CPU, at most.
REQUEST, PAGE = 50.0, 300.0

HANGUL = "".join(map(chr, range(0xAC00, 0xD7A4)))
#: More different characters than are remembered.
IDEOGRAPHS = "".join(map(chr, [*range(0x4E00, 0xA000), *range(0x20000, 0x2A6E0)]))
#: Texts by what is costly about them.
UNITS = {
    "letters": "aB",
    "letters that stand for several": "\u3316\ufb03",
    "accents in the wrong order": "a" + "\u0301\u0316" * 40,
    "every Korean syllable": HANGUL,
    "more ideographs than are remembered": IDEOGRAPHS,
    "joined emoji": "\U0001f469\u200d",
    "isolates": "\u2068a\u2069",
    "letters that look Latin": "\u0430\u03bf",
}


def text(unit: str, number: int, length: int) -> str:
    """Return text of a length, other for each number, with nothing that is cut off."""
    marker = f"{number:05}"
    repeats = (length - len(marker)) // len(unit)
    if repeats:
        return unit * repeats + marker
    start = number * length % (len(unit) - length)
    return unit[start : start + length - len(marker)] + marker


def schemas(unit: str, limits: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield schemas of these texts by what is large about them; each is within the limits."""
    # In escapes, texts may reach the limit on the whole document first.
    weight = max(len(json.dumps(char)) - 2 for char in unit)
    chars = min(limits.sum_chars, int((limits.schema_chars - 20_000) / weight))
    share = chars // limits.properties
    title = min(limits.title_chars, share // 2)
    length = min(limits.text_chars, share - title - 8)
    yield (
        "texts",
        {
            f"p{number}": {
                "type": "string",
                "title": text(unit, number, title),
                "description": text(unit, number + 500, length),
            }
            for number in range(limits.properties)
        },
    )
    for name, length in (("long options", limits.title_chars), ("short options", 20)):
        most = min(chars // (length + 1), limits.values - 4 * limits.properties)
        lists = [limits.enum_members] * (most // limits.enum_members)
        lists = [*lists, most % limits.enum_members][: limits.properties]
        yield (
            name,
            {
                f"p{place}": {
                    "type": "string",
                    "enum": [text(unit, place * 1000 + each, length) for each in range(count)],
                }
                for place, count in enumerate(lists)
                if count
            },
        )


def documents() -> Iterator[tuple[str, bool, dict[str, Any]]]:
    """Yield requested schemas: what is costly, whether the limits are the wide ones, and it."""
    from elicitation.core import DEFAULT_LIMITS, WIDE_LIMITS

    for is_wide, limits in ((False, DEFAULT_LIMITS), (True, WIDE_LIMITS)):
        for costly, unit in UNITS.items():
            for shape, properties in schemas(unit, limits):
                found = {"type": "object", "properties": properties}
                yield f"{costly}, {shape}", is_wide, found
    ignored = [[]] * (DEFAULT_LIMITS.values - 20)
    small = {"type": "object", "properties": {"a": {"type": "string"}}, "$defs": ignored}
    yield "keywords that are ignored", False, small


def cpu(work: Callable[[], object]) -> float:
    """Return the milliseconds of CPU that this takes; the least of three times."""
    times = []
    for _ in range(3):
        begin = time.process_time()
        work()
        times.append(time.process_time() - begin)
    return 1000 * min(times)


def read(is_wide: bool, requested: dict[str, Any], message: str = "") -> Any:
    """Read a request as a call does; it must be accepted."""
    from elicitation.calls.requests import read_requests
    from elicitation.models import ServerPolicy

    policy = ServerPolicy(server="shop", policy="url_and_form", wide_limits=is_wide)
    params = {"message": message, "requestedSchema": requested}
    round = {"k": {"method": "elicitation/create", "params": params}}
    (found,) = read_requests(round, server="shop", tool="buy", policy=policy)
    return found


def measure(kinds: int | None = None) -> Iterator[tuple[float, float, str]]:
    """Yield what each costs, what it may cost, and its name."""
    from django.contrib.auth.models import User
    from django.test import Client
    from django.urls import reverse

    from elicitation import inbox
    from elicitation.models import Elicitation, ServerPolicy

    person = User.objects.create_superuser("ada")
    client = Client()
    client.force_login(person)
    ServerPolicy.objects.create(server="shop", policy="url_and_form", prefill=True)
    number = SimpleNamespace(of=0)

    def ask(request: Any) -> Elicitation:
        number.of += 1
        return inbox.ask(
            request,
            parked_call_id=inbox_key(number.of),
            scope="bench",
            scope_label="",
            call=str(number.of),
            round=1,
            respondent_id=person.pk,
        )

    def get(where: str) -> None:
        assert client.get(where).status_code == 200

    listed = reverse("admin:elicitation_elicitation_changelist")
    for name, is_wide, requested in list(documents())[:kinds]:
        title = f"{name}{', wide limits' if is_wide else ''}"
        yield cpu(lambda: read(is_wide, requested)), REQUEST, f"request: {title}"  # noqa: B023
        request = read(is_wide, requested, "x" * 2000)
        rows = [ask(request) for _ in range(10)]
        page = rows[0].get_absolute_url()
        yield cpu(lambda: get(page)), PAGE, f"page: {title}"  # noqa: B023
        yield cpu(lambda: get(listed)), PAGE, f"list of ten: {title}"
        Elicitation.objects.all().delete()


def inbox_key(number: int) -> Any:
    from elicitation.models import row_key

    return row_key("bench", str(number))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.hostile", description=__doc__)
    parser.add_argument("--database-url", help="default: DATABASE_URL, else an SQLite file")
    parser.add_argument("--all", action="store_true", help="print all, not only the worst")
    options = parser.parse_args()
    from tests.torture.command import in_own_database

    with in_own_database(options.database_url):
        found = sorted(measure(), key=lambda one: one[0] / one[1], reverse=True)
    worst = found if options.all else found[:15]
    for took, limit, name in worst:
        print(f"{took:8.1f} ms of {limit:3.0f}  {name}")
    print(f"{len(found)} inputs")
    return 1 if any(took > limit for took, limit, _name in found) else 0


if __name__ == "__main__":
    sys.exit(main())
