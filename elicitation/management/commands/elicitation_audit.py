"""Export the audit trail."""

from __future__ import annotations

import csv
import json
from argparse import ArgumentParser
from datetime import datetime, time
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime

from elicitation.inbox import audit
from elicitation.management.terminal import reader_has_gone


class Command(BaseCommand):
    """Write what was asked, of whom and how it ended, one record per line."""

    help = (
        "Write what was asked, of whom, by which server and tool, and how it ended: one record "
        "per line, the oldest first, without answers."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        moment = "an ISO date, or date and time; without a zone, in the time zone of the site"
        parser.add_argument("--since", required=True, help=f"asked at or after: {moment}")
        parser.add_argument("--until", help=f"asked before: {moment}")
        parser.add_argument(
            "--format",
            choices=("jsonl", "csv", "ecs"),
            default="jsonl",
            help="one JSON object per line, CSV, or one event per line in the fields of the "
            "Elastic Common Schema (default: jsonl)",
        )
        parser.add_argument(
            "--refusals",
            action="store_true",
            help=(
                "write what servers asked and nobody was asked instead, by the last time: server, "
                "tool, code, property, reason, and how often"
            ),
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the records as they are read."""
        since = _moment(options["since"])
        until = None if options["until"] is None else _moment(options["until"])
        read = audit.refusals if options["refusals"] else audit.records
        fields = audit.REFUSAL_FIELDS if options["refusals"] else audit.FIELDS
        records = read(since=since, until=until)
        try:
            if options["format"] == "csv":
                writer = csv.writer(self.stdout)
                writer.writerow(fields)
                for record in records:
                    writer.writerow(audit.spreadsheet_cell(value) for value in record.values())
            else:
                as_line = audit.ecs if options["format"] == "ecs" else dict
                for record in records:
                    # ASCII: no character of a server's reaches a terminal as it is.
                    self.stdout.write(json.dumps(as_line(record)))
            self.stdout.flush()
        except BrokenPipeError:
            reader_has_gone()


def _moment(text: str) -> datetime:
    try:
        moment = parse_datetime(text)
        if moment is None and (day := parse_date(text)) is not None:
            moment = datetime.combine(day, time())
    except ValueError:
        moment = None
    if moment is None:
        raise CommandError(
            "--since and --until take an ISO date, or date and time, such as 2026-12-31."
        )
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
