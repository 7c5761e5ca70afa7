"""The inbox in a terminal: list open elicitations, answer or decline one."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django import forms
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.views.decorators.debug import sensitive_variables

from elicitation import inbox
from elicitation.conf import settings
from elicitation.core import ElicitationRefusal
from elicitation.core.untrusted import mixes_scripts
from elicitation.management.terminal import ANSWER, Ended, Terminal, reader_has_gone
from elicitation.models import Elicitation, ServerPolicy
from elicitation.pages.fields import Question
from elicitation.pages.forms import ElicitationForm, form_class
from elicitation.pages.localised import moment_text, plain_digits
from elicitation.pages.presentation import (
    HEADINGS,
    HEADINGS_OF_OTHERS,
    HEADINGS_OF_URLS,
    NOT_STORED,
    WARNINGS,
    form_context,
    shown_name,
)
from elicitation.transactions import write_alias

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser

Via = Elicitation.Via

#: How many lines of a message the list shows.
LISTED_LINES = 3
#: Typed to give no answer to a question for which the server suggests one.
BLANK = "-"


class Command(BaseCommand):
    """List the open elicitations of a person, and answer or decline one as that person."""

    help = (
        "List the open requests of a person. `elicitation answer ID` shows a request as its page "
        "does, asks its questions and sends the answers as this person. The audit says that it "
        "was this command. ELICITATION_ACCESS decides who may answer, as on the pages."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Add the command's options."""
        user = {
            "metavar": "NAME",
            "help": "the user name of the person; needed if several people have open requests",
        }
        parser.add_argument("--user", default=None, **user)  # type: ignore[arg-type]
        actions = parser.add_subparsers(dest="action", metavar="ACTION")
        listing = actions.add_parser("list", help="list the open requests (the default)")
        answer = actions.add_parser("answer", help="answer a request, or decline it")
        for one in (listing, answer):
            # The default must not replace a --user before the action.
            one.add_argument("--user", default=SUPPRESS, **user)  # type: ignore[arg-type]
        answer.add_argument(
            "id",
            metavar="ID",
            help="the id that the list shows: its first characters will do, or all of it",
        )
        answer.add_argument("--decline", action="store_true", help="decline the question")
        answer.add_argument(
            "--yes", action="store_true", help="send without asking whether that is meant"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """List, answer or decline."""
        self.terminal = Terminal(self.stdout)
        user = _person(options["user"])
        if options["action"] != "answer":
            try:
                self._list(user)
                self.stdout.flush()
            except BrokenPipeError:
                reader_has_gone()
            return
        if user is None:
            raise CommandError(gettext("There are no open requests."))
        elicitation = _found(user, options["id"])
        if not elicitation.is_open():
            raise CommandError(_of(HEADINGS_OF_OTHERS, elicitation.current_state()))
        try:
            self._show(elicitation, user, decline=options["decline"], yes=options["yes"])
        except (Ended, KeyboardInterrupt) as error:
            self.terminal.say()
            raise CommandError(
                gettext("Nothing was sent. The request stays open."),
                returncode=130 if isinstance(error, KeyboardInterrupt) else 1,
            ) from None
        except inbox.ElicitationClosedError as closed:
            raise CommandError(_of(NOT_STORED, closed.code)) from None
        except Elicitation.DoesNotExist:
            raise CommandError(
                gettext("The request no longer exists. Nothing was stored.")
            ) from None

    # --- The list ----------------------------------------------------------------------------

    def _list(self, user: AbstractBaseUser | None) -> None:
        if user is None:
            self.terminal.say(gettext("There are no open requests."))
            return
        waiting = list(inbox.waiting(user))
        name = user.get_username()
        if not waiting:
            self.terminal.say(gettext("No open requests for %(user)s.") % {"user": name})
            return
        count = len(waiting)
        self.terminal.say(
            ngettext(
                "%(count)s open request for %(user)s.",
                "%(count)s open requests for %(user)s.",
                count,
            )
            % {"count": count, "user": name}
        )
        policies = ServerPolicy.objects.for_servers({one.server for one in waiting})
        for elicitation in waiting:
            self.terminal.say()
            asks = gettext("%(server)s asks") % {
                "server": shown_name(policies[elicitation.server])
            }
            by = f"{gettext('Answer by')} {moment_text(elicitation.expires_at)}"
            self.terminal.listed(f"{asks}\n{by}", f"{elicitation.short_id}  ")
            if elicitation.message.strip():
                self.terminal.quote(elicitation.message, " " * 10, most=LISTED_LINES)

    # --- One request -------------------------------------------------------------------------

    def _show(
        self, elicitation: Elicitation, user: AbstractBaseUser, *, decline: bool, yes: bool
    ) -> None:
        """Show an elicitation, and answer, decline or leave it."""
        policy = elicitation.server_policy
        self._frame(elicitation, policy, user)
        inbox.shown(elicitation)
        if decline:
            if yes or self._choose(gettext("Decline"), gettext("Leave it for now")) == 1:
                self._decline(elicitation, user)
            else:
                self._leave()
            return
        if elicitation.is_url:
            self._consent(elicitation, policy, user)
            return
        form = form_class()(elicitation.form_elicitation, prefill=policy.prefill)
        context = form_context(elicitation, policy, form)
        if context["speaks_of_secrets"]:
            self.terminal.say(
                gettext(
                    "This request mentions a password, a key, a token or a code. Decline if "
                    "the server wants one: no honest server asks for it in a form."
                )
            )
        self._answer(elicitation, user, form, yes=yes)

    @sensitive_variables()
    def _answer(
        self, elicitation: Elicitation, user: AbstractBaseUser, form: ElicitationForm, *, yes: bool
    ) -> None:
        """Ask all questions. Send the answers when they fit and the person agrees."""
        asked = form.questions
        data: dict[str, Any] = {"fingerprint": elicitation.fingerprint}
        bound = self._ask(elicitation, asked, data)
        while True:
            choice = 1
            if not yes:
                self._review(bound)
                send = gettext("Send answer") if asked else gettext("Accept")
                again = [gettext("Answer again")] if asked else []
                choice = self._choose(
                    send, gettext("Decline"), gettext("Leave it for now"), *again
                )
            if choice == 2:
                self._decline(elicitation, user)
                return
            if choice == 3:
                self._leave()
                return
            if choice == 1:
                try:
                    inbox.answer(
                        elicitation.pk,
                        bound.checked or bound.to_answers(),
                        by=user,
                        via=Via.COMMAND,
                        fingerprint=bound.sent_fingerprint,
                    )
                except inbox.AnswerRefusals as refusals:
                    bound.refuse(refusals.errors)
                else:
                    self.terminal.say(_of(HEADINGS, Elicitation.State.ANSWERED))
                    return
            wrong = [one for one in asked if bound[one.name].errors]
            for error in bound.summary:
                self.terminal.say(error.text)
            bound = self._ask(elicitation, wrong or asked, data)

    @sensitive_variables()
    def _consent(
        self, elicitation: Elicitation, policy: ServerPolicy, user: AbstractBaseUser
    ) -> None:
        """Show a URL, and ask whether the person agrees to open it.

        ``--yes`` does not agree: it was typed before the person saw the URL.
        """
        terminal, site_host = self.terminal, urlsplit(settings.BASE_URL).netloc
        try:
            url = policy.parse_url(elicitation.url, site_host=site_host)
        except ElicitationRefusal:
            raise CommandError(
                gettext("The link is not shown: this site no longer lets the server ask for it.")
            ) from None
        terminal.say(gettext("This is the whole link"))
        terminal.quote(url.text)
        if url.registrable_domain:
            owner = gettext("The link belongs to: %(domain)s")
            terminal.say(owner % {"domain": url.registrable_domain})
        if "idn" in url.warnings:
            terminal.say(f"{gettext('The same name in technical notation:')} {url.host}")
        for code in url.warnings:
            terminal.listed(str(WARNINGS[code]), "! ")
        terminal.say(
            gettext(
                "This site has not opened the link and does not know what is there. Go on "
                "only if you know whose link it is."
            )
        )
        choice = self._choose(gettext("Agree"), gettext("Decline"), gettext("Leave it for now"))
        if choice == 1:
            inbox.consent(
                elicitation.pk, by=user, via=Via.COMMAND, fingerprint=elicitation.fingerprint
            )
            terminal.say(_of(HEADINGS_OF_URLS, Elicitation.State.ANSWERED))
            terminal.say()
            # On one line, so that people can copy it. It is printable ASCII, so the terminal
            # obeys nothing in it.
            self.stdout.write(url.href)
            terminal.say()
            if not elicitation.in_call:
                self._wait(elicitation, user)
        elif choice == 2:
            self._decline(elicitation, user)
        else:
            self._leave()

    def _wait(self, elicitation: Elicitation, user: AbstractBaseUser) -> None:
        """Wait until the person has finished at the URL."""
        self.terminal.say(gettext("When you have finished there, come back and press Continue."))
        with suppress(Ended, KeyboardInterrupt):
            choice = self._choose(gettext("Continue"), gettext("Decline"), gettext("Later"))
            if choice == 1:
                inbox.go_on(elicitation.pk, by=user)
            elif choice == 2:
                self._decline(elicitation, user)

    def _decline(self, elicitation: Elicitation, user: AbstractBaseUser) -> None:
        inbox.decline(elicitation.pk, by=user, via=Via.COMMAND)
        self.terminal.say(_of(HEADINGS, Elicitation.State.DECLINED))

    def _leave(self) -> None:
        self.terminal.say(gettext("Nothing was sent. The request stays open."))

    def _frame(
        self, elicitation: Elicitation, policy: ServerPolicy, user: AbstractBaseUser
    ) -> None:
        """Say which server asks, and quote what it writes."""
        terminal = self.terminal
        names = {"server": shown_name(policy), "user": user.get_username()}
        terminal.say(gettext("%(server)s asks %(user)s") % names)
        terminal.say()
        if elicitation.round > 1:
            terminal.say(gettext("This is the next request of the same tool call."))
        terminal.say(gettext("An external server asks this. This site does not."))
        terminal.say(gettext("Lines that begin with a bar were written by the server."))
        if elicitation.is_url:
            terminal.say(
                gettext(
                    "%(server)s wants you to open a link. The server learns only whether you "
                    "agree."
                )
                % names
            )
            terminal.say(
                gettext(
                    "What you enter there goes to the operator of that page. Neither this site "
                    "nor the AI agent sees it."
                )
            )
        else:
            terminal.say(
                gettext(
                    "Your answer goes to %(server)s. The AI agent that uses this server for you "
                    "may see the answer, too."
                )
                % names
            )
            terminal.say(gettext("Never enter passwords, keys or card numbers here."))
        if mixes_scripts(names["server"]):
            terminal.say(
                gettext(
                    "The name of this server mixes letters of several scripts. It may only look "
                    "like a name that you know."
                )
            )
        terminal.say()
        terminal.quote(elicitation.tool, f"{elicitation.called} ")
        if elicitation.scope_label:
            terminal.quote(elicitation.scope_label, f"{gettext('Conversation')} ")
        terminal.say(f"{gettext('Answer by')} {moment_text(elicitation.expires_at)}")
        if elicitation.in_call:
            terminal.say(
                gettext(
                    "The server waits for your answer until then. After that, your answer "
                    "can no longer be sent."
                )
            )
        if elicitation.message.strip():
            terminal.say()
            terminal.say(gettext("The server writes:"))
            terminal.quote(elicitation.message)
        terminal.say()

    # --- Asking ------------------------------------------------------------------------------

    @sensitive_variables()
    def _ask(
        self, elicitation: Elicitation, questions: Sequence[Question], data: dict[str, Any]
    ) -> ElicitationForm:
        """Ask until each answer fits; ``data`` is what a browser would send."""
        for question in questions:
            self._introduce(question)
            while True:
                data.update(self._typed(question))
                # The form reads and checks the answer, as on the page.
                bound = form_class()(elicitation.form_elicitation, data)
                errors = bound[question.name].errors
                if not errors:
                    break
                for error in errors:
                    self.terminal.say(str(error))
        bound = form_class()(elicitation.form_elicitation, data)
        bound.is_valid()
        return bound

    def _introduce(self, question: Question) -> None:
        if question.number > 1:
            self.terminal.say()
        if question.place:
            self.terminal.say(question.place)
        self.terminal.quote(question.title)
        if question.description:
            self.terminal.quote(question.description)
        if question.hint:
            self.terminal.say(question.hint)
        if question.format:
            self.terminal.say(gettext("The server names a format:"))
            self.terminal.quote(question.format)
        if question.is_optional:
            self.terminal.say(gettext("(optional)"))
            if question.form.initial.get(question.name) is None:
                self.terminal.say(gettext("Press Enter for no answer."))

    def _typed(self, question: Question) -> dict[str, Any]:
        """Return what a browser would send of one question."""
        name, widget = question.html_name, question.field.widget
        suggested = question.form.initial.get(question.name)
        if isinstance(widget, forms.MultiWidget):
            return self._moment(name, widget, suggested)
        values = [str(value) for value, _label in getattr(widget, "choices", ())]
        values = [value for value in values if value]
        if values:
            several = bool(getattr(widget, "allow_multiple_selected", False))
            return {name: self._chosen(question, values, suggested, several=several)}
        if suggested is not None:
            self.terminal.say(gettext("Press Enter to take what the server suggests:"))
            self.terminal.quote(str(suggested))
            self._offer_blank(question)
        if isinstance(widget, forms.Textarea):
            self.terminal.say(gettext("End with an empty line."))
            text = self._lines()
        else:
            text = self.terminal.read()
        return {name: _or(suggested, text, blank="", optional=question.is_optional)}

    def _offer_blank(self, question: Question) -> None:
        if question.is_optional:
            self.terminal.say(gettext("Type %(blank)s for no answer.") % {"blank": BLANK})

    def _lines(self) -> str:
        lines = []
        while line := self.terminal.read():
            lines.append(line)
        return "\n".join(lines)

    def _chosen(
        self, question: Question, values: Sequence[str], suggested: Any, *, several: bool
    ) -> Any:
        """Let the person choose by numbers, and return the values of what they chose."""
        for number, value in enumerate(values, 1):
            label, description = question.field.option(value)
            if question.field.options_are_ours:
                self.terminal.listed(label, f"{number:>3}. ")
            else:
                self.terminal.quote(
                    f"{label}\n({description})" if description else label, f"{number:>3}. "
                )
        if several:
            self.terminal.say(
                gettext("Type the numbers of your choices, with spaces between them.")
            )
        else:
            self.terminal.say(gettext("Type the number of your choice."))
        nothing: Any = [] if several else ""
        if suggested is not None:
            chosen = [suggested] if isinstance(suggested, str) else suggested
            numbers = " ".join(str(values.index(value) + 1) for value in chosen)
            self.terminal.say(
                gettext("Press Enter to take what the server suggests: %(numbers)s")
                % {"numbers": numbers or BLANK}
            )
            self._offer_blank(question)
        text = plain_digits(self.terminal.read()).replace(",", " ").strip()
        if not text or (text == BLANK and suggested is not None):
            return _or(suggested, text, blank=nothing, optional=question.is_optional)
        # The form refuses what is not a number of the list.
        found = [_numbered(values, word) for word in text.split()]
        return found if several else (found[0] if len(found) == 1 else text)

    def _moment(self, name: str, widget: Any, suggested: Any) -> dict[str, str]:
        """Ask for a local time and its zone."""
        local, zone = widget.decompress(suggested)
        zone = zone or timezone.get_current_timezone_name()
        at, in_zone = (f"{name}{suffix}" for suffix in widget.widgets_names)
        self.terminal.say(gettext("Date and time, such as 2026-12-31 18:00:"))
        if local:
            self.terminal.say(gettext("Press Enter to take what the server suggests:"))
            self.terminal.quote(str(local))
        typed = self.terminal.read().strip()
        if typed == BLANK or not (typed or local):
            return {at: "", in_zone: zone}
        self.terminal.say(gettext("Time zone; press Enter for %(zone)s:") % {"zone": zone})
        return {at: typed or local, in_zone: self.terminal.read().strip() or zone}

    # --- Sending -----------------------------------------------------------------------------

    @sensitive_variables()
    def _review(self, bound: ElicitationForm) -> None:
        """Show the answers once more before they are sent."""
        self.terminal.say()
        for question in bound.questions:
            answer = bound.cleaned_data[question.name]
            self.terminal.quote(question.title)
            if answer.skipped:
                self.terminal.typed(gettext("No answer"))
            elif question.field.options_are_ours:
                label, _description = question.field.option(question.field.initial_from(answer))
                self.terminal.typed(label)
            elif answer.selected:
                for label in answer.selected:
                    self.terminal.quote(label, ANSWER)
            else:
                self.terminal.typed(answer.text)

    def _choose(self, *texts: str) -> int:
        """Let the person choose what to do next; return its number, from 1."""
        self.terminal.say()
        while True:
            for number, text in enumerate(texts, 1):
                self.terminal.listed(text, f"{number:>3}. ")
            typed = plain_digits(self.terminal.read()).strip()
            if typed in map(str, range(1, len(texts) + 1)):
                return int(typed)
            self.terminal.say(gettext("Type the number of your choice."))


def _person(name: str | None) -> AbstractBaseUser | None:
    """Return the person for whom the command acts; ``None`` if there is no open request."""
    model = get_user_model()
    if name is None:
        waiting = Elicitation.objects.using(write_alias()).open().exclude(respondent=None)
        asked = list(waiting.order_by().values_list("respondent", flat=True).distinct()[:2])
        if not asked:
            return None
        if len(asked) > 1:
            raise CommandError(
                gettext("Several people have open requests. Choose one person with --user.")
            )
        wanted: dict[str, Any] = {"pk": asked[0]}
    else:
        wanted = {model.USERNAME_FIELD: name}
    user: AbstractBaseUser | None = model._default_manager.filter(**wanted).first()
    if user is None:
        raise CommandError(gettext("There is no user with this name."))
    if not user.is_active:
        raise CommandError(gettext("The account of this user is not active."))
    return user


def _found(user: AbstractBaseUser, text: str) -> Elicitation:
    """Return the elicitation with this id, or the open one whose id begins with ``text``.

    Raises:
        CommandError: This person may see no such elicitation, or there are several.
    """
    digits = text.replace("-", "").lower()
    try:
        if len(digits) == 32:
            return inbox.get(user, digits)
        found = [one for one in inbox.waiting(user) if digits and one.pk.hex.startswith(digits)]
    except Elicitation.DoesNotExist:
        found = []
    if len(found) > 1:
        raise CommandError(
            gettext("The ids of several requests begin with this text. Type more characters.")
        )
    if not found:
        raise CommandError(
            gettext(
                "There is no open request with this id for %(user)s. `manage.py "
                "elicitation` lists the open requests."
            )
            % {"user": user.get_username()}
        )
    return found[0]


def _numbered(values: Sequence[str], word: str) -> str:
    """Return the value of an option by its number; ``?`` if there is no such number."""
    if word.isascii() and word.isdecimal() and len(word) <= 3 and 0 < int(word) <= len(values):
        return values[int(word) - 1]
    return "?"


def _or(suggested: Any, text: str, *, blank: Any, optional: bool) -> Any:
    """Return what was typed, or, if nothing was typed, what the server suggests."""
    if suggested is None:
        return text or blank
    if not text:
        return suggested
    return blank if text.strip() == BLANK and optional else text


def _of(texts: Any, code: str) -> str:
    return str(texts[code])
