"""Read and decide what servers may ask people."""

from __future__ import annotations

import logging
from argparse import ArgumentParser, BooleanOptionalAction, RawDescriptionHelpFormatter
from typing import Any

from django.core.exceptions import ImproperlyConfigured, ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from elicitation.calls import switching
from elicitation.conf import settings
from elicitation.core.untrusted import visible
from elicitation.management.terminal import reader_has_gone
from elicitation.models import Elicitation, InvalidNameError, ServerPolicy, check_name, row_key
from elicitation.transactions import write_alias

logger = logging.getLogger("elicitation")

#: The switches of a policy: ``--prefill`` and ``--no-prefill``.
FLAGS = ("allow_confirmation", "wide_limits", "prefill", "allow_loopback_http")
EXAMPLES = """
examples:
  manage.py elicitation_policy list
  manage.py elicitation_policy show shop
  manage.py elicitation_policy set shop --policy url_and_form --label "The shop"
  manage.py elicitation_policy set shop --tool 'delete_*' never --tool 'draft_*' ask
  manage.py elicitation_policy set shop --domain example.com --domain '*.example.org'
  manage.py elicitation_policy reset shop --yes
  manage.py elicitation_policy off shop
  manage.py elicitation_policy off --all
"""


class Command(BaseCommand):
    """List, show, set and reset server policies, and switch servers off."""

    help = (
        "Read and decide what MCP servers may ask people. A policy in the database wins, as a "
        "whole, over what ELICITATION_SERVERS says of the server. What a new policy forbids is "
        "withdrawn at once, and the calls that asked it are ended."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        """Return a parser whose help ends with examples."""
        parser = super().create_parser(prog_name, subcommand, epilog=EXAMPLES, **kwargs)
        parser.formatter_class = RawDescriptionHelpFormatter
        return parser

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's actions."""
        actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
        actions.add_parser(
            "list", help="one line per server: what it may show, and how much it has under way"
        )
        for name, text in (
            ("show", "every decision about a server, and where it comes from"),
            ("set", "change the decisions that are named, and leave the others"),
            ("reset", "remove the policy: what ELICITATION_SERVERS says counts again"),
        ):
            one = actions.add_parser(name, help=text, description=text)
            one.add_argument("server", help="the exact name under which this site has the server")
            if name == "set":
                _add_decisions(one)
            elif name == "reset":
                one.add_argument(
                    "--yes", action="store_true", help="also if that allows more than now"
                )
        off = actions.add_parser("off", help="let servers ask nothing any more, from now on")
        off.add_argument("servers", nargs="*", metavar="server", help="the servers")
        off.add_argument("--all", action="store_true", help="every server that this site knows")

    def handle(self, *args: Any, **options: Any) -> None:
        """Do what the action says."""
        try:
            getattr(self, f"_{options['action']}")(options)
            self.stdout.flush()
        except BrokenPipeError:
            reader_has_gone()
        except (ImproperlyConfigured, InvalidNameError) as error:
            raise CommandError(str(error)) from None

    # --- Reading -----------------------------------------------------------------------------

    def _list(self, options: dict[str, Any]) -> None:
        known = switching.under_way()
        rows = [("server", "may show", "rules", "from", "waiting", "calls")]
        for server, policy in ServerPolicy.objects.for_servers(known).items():
            number = len(policy.tools.split("\n")) if policy.tools else 0
            waiting, calls = map(str, known[server])
            shown = (visible(server), policy.policy, str(number), _origin(policy), waiting, calls)
            rows.append(shown)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())

    def _show(self, options: dict[str, Any]) -> None:
        policy = ServerPolicy.objects.for_server(check_name("The server", options["server"]))
        self.stdout.write(f"server: {visible(policy.server)}")
        self.stdout.write(f"from: {_origin(policy)}")
        for field in policy._meta.concrete_fields:
            if field.name not in ("id", "server"):
                self._write(field.name, getattr(policy, field.name))

    def _write(self, name: str, value: object) -> None:
        """Write a decision; one of several lines has each of them below its name."""
        lines = str(value).splitlines()
        if len(lines) < 2:
            self.stdout.write(f"{name}: {visible(str(value))}".rstrip())
            return
        self.stdout.write(f"{name}:")
        for line in lines:
            self.stdout.write(f"  {visible(line)}")

    # --- Deciding ----------------------------------------------------------------------------

    def _set(self, options: dict[str, Any]) -> None:
        policy = ServerPolicy.objects.for_server(check_name("The server", options["server"]))
        for name in ("policy", "label", "retention_days", *FLAGS):
            if options[name] is not None:
                setattr(policy, name, options[name])
        # 0 is how a command line says that there are none.
        policy.retention_days = policy.retention_days or None
        if options["domain"] is not None:
            policy.allowed_domains = "\n".join(options["domain"])
        for tool in options["no_tool"]:
            policy.drop_tool_rule(tool)
        for tool, rule in options["tool"]:
            policy.set_tool_rule(tool, rule)
        try:
            policy.full_clean(exclude=("id",))
        except ValidationError as error:
            raise CommandError(
                "\n".join(
                    f"{name}: {' '.join(texts)}" for name, texts in error.message_dict.items()
                )
            ) from None
        policy.save(using=write_alias())
        self._say("set", policy.server)
        self._stop(policy.server)

    def _reset(self, options: dict[str, Any]) -> None:
        server = check_name("The server", options["server"])
        found = ServerPolicy.objects.using(write_alias()).filter(pk=row_key(server)).first()
        if found is None:
            raise CommandError("There is no policy of this server in the database.")
        wider = ServerPolicy.from_settings(server).allows_more_than(found)
        if wider and not options["yes"]:
            raise CommandError(
                f"The reset allows more than now: {', '.join(wider)}. Add --yes if that is meant."
            )
        found.delete()
        self._say("reset", server)
        self._stop(server)

    def _off(self, options: dict[str, Any]) -> None:
        if bool(options["servers"]) == options["all"]:
            raise CommandError("Name the servers, or say --all.")
        for server in options["servers"] or switching.under_way():
            done = switching.switch_off(server, via=Elicitation.Via.COMMAND)
            self._say("off", server, done)

    def _stop(self, server: str) -> None:
        done = switching.stop(server, via=Elicitation.Via.COMMAND)
        if any(done):
            self._say("stopped", server, done)

    def _say(self, what: str, server: str, done: switching.SwitchedOff | None = None) -> None:
        counts = (
            f"; requests withdrawn {done.withdrawn}, calls ended {done.ended}, "
            f"calls that end before they send anything {done.in_progress}"
            if done
            else ""
        )
        self.stdout.write(f"elicitation_policy: {what} {visible(server)}{counts}")
        fields = {"server": server} | (done._asdict() if done else {})
        logger.info("A server policy was changed by command: %s", what, extra=fields)


def _add_decisions(parser: ArgumentParser) -> None:
    """Add the options of ``set``: one for each field of a policy, with its help text."""

    def field_help(name: str) -> str:
        return str(getattr(ServerPolicy._meta.get_field(name), "help_text", "")).replace("%", "%%")

    parser.add_argument(
        "--policy", choices=ServerPolicy.Policy.values, help="what the server may show"
    )
    parser.add_argument("--label", help=field_help("label"))
    parser.add_argument(
        "--tool",
        nargs=2,
        action="append",
        default=[],
        metavar=("NAME", "RULE"),
        help=f"a rule for a tool: {', '.join(ServerPolicy.ToolRule.values)}. A name with * at its "
        "end means all tools that begin so. The exact name wins, then the longest beginning.",
    )
    parser.add_argument(
        "--no-tool", action="append", default=[], metavar="NAME", help="remove the rule for a name"
    )
    parser.add_argument(
        "--domain",
        action="append",
        metavar="HOST",
        help="a host of links, in place of those that are listed: example.com, or "
        "*.example.com for every name below it. --domain '' allows every host.",
    )
    parser.add_argument(
        "--retention-days",
        type=int,
        metavar="DAYS",
        help=f"{field_help('retention_days')} 0 is the same as empty.",
    )
    for name in FLAGS:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, action=BooleanOptionalAction, help=field_help(name))


def _origin(policy: ServerPolicy) -> str:
    """Return where a policy comes from."""
    if policy.pk is not None:
        return "database"
    return "settings" if policy.server in settings.SERVERS else "default"
