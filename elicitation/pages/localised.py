"""Numbers, days and times as people write them in their language, read as the core reads them.

What could mean two things is refused with both spelled out, never guessed.
"""

from __future__ import annotations

import re
import unicodedata
import zoneinfo
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import timezone as fixed_timezone
from functools import cache

from django.core.exceptions import ValidationError
from django.utils import dateformat, formats, timezone
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

#: What to tell a person about a text that does not have its format.
FORMAT_MESSAGES: dict[str, Promise] = {
    "email": _("Write an e-mail address such as name@example.com."),
    "uri": _("Write a complete link such as https://example.com/page."),
    "date": _("Write a date that exists, such as 2026-12-31."),
    "date-time": _("Write a date and a time that exist."),
}

# The optional fraction begins with its point, so that no digit can be read in two ways: with
# `\.?` between two runs of digits the time grew with the square of the length.
_PLAIN_NUMBER = re.compile(r"[+-]?[0-9]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
# Blanks that separate groups of digits.
_GROUP_BLANKS = " \u00a0\u2009\u202f"
_MINUS = "\u2212"


def plain_digits(text: str) -> str:
    """Return ``text`` with the decimal digits of any script as ASCII ones."""
    if text.isascii():
        return text
    return "".join(
        str(unicodedata.decimal(character)) if character.isdecimal() else character
        for character in text
    )


def localised_number(text: str) -> str:
    """Return a plain number as the language writes it, so that it is read back as the same."""
    decimal = str(formats.get_format("DECIMAL_SEPARATOR"))
    if decimal == "." or "." not in text:
        return text
    shown = text.replace(".", decimal)
    # 1,234 could be read as a thousand; 1,2340 could not.
    return shown + "0" if _could_be_grouped(shown, decimal) else shown


def read_number(text: str) -> str:
    """Return a number as the core reads it, from the language's own form or the plain one.

    What is neither is returned as it is, for the core to refuse.

    Raises:
        ValidationError: The two forms, or what readers of other languages take it for, are
            different numbers; or it has a comma where the language has a point.
    """
    decimal = str(formats.get_format("DECIMAL_SEPARATOR"))
    group = str(formats.get_format("THOUSAND_SEPARATOR"))
    # Arabic writes its own digits with its own separators, which nothing can be taken for.
    text = plain_digits(text).replace("\u066b", decimal).replace("\u066c", "")
    text = text.replace(_MINUS, "-")
    separators = {character for character in text if character in ".,"}
    if len(separators) == 1:
        separator = separators.pop()
        plain_and_ours = separator == "." and decimal == "."
        if _could_be_grouped(text, separator) and not plain_and_ours:
            whole = text.replace(separator, "")
            fraction = text.replace(separator, ".")
            raise ValidationError(
                gettext(
                    "This could be %(whole)s, or %(fraction)s with a fraction. Write %(whole)s "
                    "without a separator, or %(longer)s."
                )
                % {
                    "whole": whole,
                    "fraction": f"{fraction[:-4]}{decimal}{fraction[-3:]}",
                    "longer": f"{fraction[:-4]}{decimal}{fraction[-3:]}0",
                },
                code="ambiguous",
            )
    if _PLAIN_NUMBER.fullmatch(text):
        return text
    groups = f"[{_GROUP_BLANKS}]" if group.isspace() else re.escape(group)
    if re.fullmatch(
        rf"[+-]?(?:[0-9]+|[0-9]{{1,3}}(?:{groups}[0-9]{{3}})+)(?:{re.escape(decimal)}[0-9]*)?",
        text,
    ):
        return re.sub(groups, "", text).replace(decimal, ".")
    if decimal == "." and re.fullmatch(r"[+-]?[0-9]{1,40},[0-9]{1,40}", text):
        raise ValidationError(
            gettext("Use a point: %(number)s") % {"number": text.replace(",", ".")},
            code="comma",
        )
    return text


def _could_be_grouped(text: str, separator: str) -> bool:
    """Whether ``text`` has one separator that can mean thousands as well as a fraction."""
    grouped = rf"[+-]?[1-9][0-9]{{0,2}}{re.escape(separator)}[0-9]{{3}}"
    return re.fullmatch(grouped, text) is not None


def is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]+(?:\.[0-9]+)?", text) is not None


def read_date(text: str) -> str:
    """Return a day as ``2026-12-31``, from the forms of the language too.

    Raises:
        ValidationError: Day and month could be the other way round.
    """
    for form in formats.get_format("DATE_INPUT_FORMATS"):
        # Two digits of a year, and the names of months, are left out: the first is a guess.
        if "%y" in form or "%b" in form or "%B" in form:
            continue
        try:
            day = datetime.strptime(text, form).date()  # noqa: DTZ007 - a day has no zone
        except ValueError:
            continue
        if form.startswith("%Y"):
            return day.isoformat()
        if day.day <= 12 and day.day != day.month and "/" in text:
            other = day.replace(day=day.month, month=day.day)
            raise ValidationError(
                gettext("This could be %(one)s or %(other)s. Write %(plain)s or %(plain_other)s.")
                % {
                    "one": dateformat.format(day, formats.get_format("DATE_FORMAT")),
                    "other": dateformat.format(other, formats.get_format("DATE_FORMAT")),
                    "plain": day.isoformat(),
                    "plain_other": other.isoformat(),
                },
                code="ambiguous",
            )
        return day.isoformat()
    return text


def read_moment(text: str, zone_name: str) -> str:
    """Return a date and time with its offset, from one without and the name of a zone.

    Raises:
        ValidationError: It is none, or does not exist or exists twice in that zone.
    """
    local = _local_time(text)
    if local.tzinfo is not None:
        return local.isoformat()
    zone = _zone(zone_name)
    moment = local.replace(tzinfo=zone)
    offsets = {moment.replace(fold=fold).utcoffset() or timedelta() for fold in (0, 1)}
    if len(offsets) == 1:
        (offset,) = offsets
        if offset % timedelta(minutes=1):
            raise ValidationError(
                gettext(
                    "For a date this old, the offset of this time zone is not a whole "
                    "number of minutes. Choose a fixed offset from the list, such as "
                    "UTC+01:00."
                ),
                code="odd_offset",
            )
        return moment.isoformat()
    later, earlier = sorted(offsets)
    if moment.astimezone(UTC).astimezone(zone).replace(tzinfo=None) != local:
        raise ValidationError(
            gettext(
                "This time does not exist on that day in this time zone, because the clocks "
                "are put forward. Write an earlier or a later time."
            ),
            code="does_not_exist",
        )
    raise ValidationError(
        gettext(
            "This time exists twice on that day, because the clocks are put back. Choose "
            "the time zone %(first)s for the first time or %(second)s for the second."
        )
        % {"first": _offset_name(earlier), "second": _offset_name(later)},
        code="exists_twice",
    )


def moment_text(moment: datetime) -> str:
    """Return a moment as date, time and zone, in the person's language and zone."""
    local = timezone.localtime(moment)
    offset = local.strftime("%z")
    zone = timezone.get_current_timezone_name()
    return gettext("%(date)s, %(time)s (%(zone)s)") % {
        "date": formats.date_format(local, "DATE_FORMAT"),
        "time": formats.date_format(local, "TIME_FORMAT"),
        "zone": "UTC" if zone == "UTC" else f"{zone}, UTC{offset[:3]}:{offset[3:5]}",
    }


_ISO_MOMENT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?"
)


def _local_time(text: str) -> datetime:
    day, _blank, time = text.partition(" ")
    if time:
        text = f"{read_date(day)}T{time}"
    try:
        # fromisoformat() takes more than people write: weeks, and a day without a time.
        if _ISO_MOMENT.fullmatch(text):
            return datetime.fromisoformat(text)
    except ValueError:
        pass
    raise ValidationError(str(FORMAT_MESSAGES["date-time"]), code="bad_format")


def _zone(name: str) -> tzinfo:
    offset = re.fullmatch(r"UTC([+-])([0-9]{2}):([0-9]{2})", name)
    if offset is not None:
        distance = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        if distance < timedelta(hours=24):
            return fixed_timezone(distance if offset[1] == "+" else -distance)
    elif name in zoneinfo.available_timezones():
        return zoneinfo.ZoneInfo(name)
    raise ValidationError(gettext("Choose a time zone from the list."), code="bad_zone")


def _offset_name(offset: timedelta) -> str:
    minutes = int(offset.total_seconds()) // 60
    return f"UTC{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"


_AREAS = (
    "Africa",
    "America",
    "Antarctica",
    "Asia",
    "Atlantic",
    "Australia",
    "Europe",
    "Indian",
    "Pacific",
)
# Every distance from UTC that is or was in use lately.
_OFFSETS = (*range(-720, 841, 60), -570, -210, 210, 270, 330, 345, 390, 525, 570, 630, 765)


def offset_zone(moment: datetime) -> str | None:
    """Return the entry of ``zones`` for the fixed offset of a moment; ``None`` if it has none."""
    offset = moment.utcoffset()
    if offset == timedelta():
        return "UTC"
    listed = {timedelta(minutes=minutes) for minutes in _OFFSETS}
    return _offset_name(offset) if offset in listed else None


@cache
def zones() -> dict[str, list[tuple[str, str]]]:
    """Return the zones of the world by area, and the fixed distances."""
    areas: dict[str, list[tuple[str, str]]] = {area: [] for area in _AREAS}
    for name in sorted(zoneinfo.available_timezones()):
        area, _slash, place = name.partition("/")
        if area in areas and place:
            areas[area].append((name, place.replace("_", " ")))
    offsets = (_offset_name(timedelta(minutes=minutes)) for minutes in sorted(_OFFSETS))
    return {**areas, "UTC": [("UTC", "UTC"), *((name, name) for name in offsets)]}
