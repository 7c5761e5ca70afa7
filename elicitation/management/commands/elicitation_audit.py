"""Export the audit trail."""

from __future__ import annotations

import csv
import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from elicitation.inbox import audit
from elicitation.management.moments import MOMENT, moment
from elicitation.management.terminal import reader_has_gone


class Command(BaseCommand):
    """Write what was asked, of whom and how it ended, one record per line."""

    help = (
        "Write what was asked, of whom, by which server and tool, and how it ended: one record "
        "per line, the oldest first, without answers."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        parser.add_argument("--since", required=True, help=f"asked at or after: {MOMENT}")
        parser.add_argument("--until", help=f"asked before: {MOMENT}")
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
        since = moment("--since", options["since"])
        until = None if options["until"] is None else moment("--until", options["until"])
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
