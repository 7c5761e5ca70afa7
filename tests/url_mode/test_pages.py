"""The pages of URL mode, through Django's test client."""

from __future__ import annotations

import logging
import socket
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from django.core import mail
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.template import Context, Template
from django.test import Client, RequestFactory
from django.urls import reverse
from django.utils import timezone
from django.views.debug import ExceptionReporter

from elicitation import inbox
from elicitation.core import SchemaRefusal, URLRefusal
from elicitation.inbox.notify import send_email
from elicitation.models import Elicitation, ParkedCall, ServerPolicy, StoredFormAnswer
from tests.asking import allow, ask, ask_to_open, schema
from tests.hostile import HOSTILE
from tests.reading_html import Page

if TYPE_CHECKING:
    from django.contrib.auth.models import User
    from pytest_django import DjangoAssertNumQueries
    from pytest_django.fixtures import SettingsWrapper

pytestmark = pytest.mark.django_db

SECRET = "t0p5ecr3t"
ADDRESS = f"https://login.example.com:8443/start/{SECRET}?a=1&token={SECRET}#{SECRET}"


def page(response: Any) -> Page:
    return Page(response.content.decode())


def tags(shown: Page) -> list[str]:
    return [element.tag for element in shown.elements]


def agree(client: Client, elicitation: Elicitation, **data: Any) -> Any:
    sent = {"fingerprint": elicitation.fingerprint} | data
    return client.post(reverse("elicitation:consent", args=(elicitation.pk,)), sent)


def go_on(client: Client, elicitation: Elicitation) -> Any:
    return client.post(reverse("elicitation:continue", args=(elicitation.pk,)))


def decline(client: Client, elicitation: Elicitation) -> Any:
    return client.post(reverse("elicitation:decline", args=(elicitation.pk,)))


def links(response: Any) -> list[str]:
    """The addresses of other hosts to which anything of a page leads, or from which it loads."""
    shown = page(response)
    found = [value for element in shown.elements for value in element.attrs.values()]
    return [address for address in found if "//" in address and "example.com" in address.lower()]


# --- Consent ---------------------------------------------------------------------------------


def test_the_page_shows_who_asks_and_the_whole_address_as_text(ada: Client, user: User) -> None:
    allow(label="Acme")
    response = ada.get(ask_to_open(user, ADDRESS).get_absolute_url())
    shown = page(response)
    assert " ".join(shown.one("h1").text.split()) == "Acme asks you"
    assert ADDRESS in shown.text
    assert "<strong>example.com</strong>" in response.content.decode()
    assert "Sign in." in shown.text
    assert "An external server asks this. This site does not." in shown.text
    assert "The link uses an unusual port." in shown.text
    assert links(response) == []
    assert "Referrer-Policy" in response.headers


def test_looking_changes_nothing(ada: Client, user: User) -> None:
    question = ask_to_open(user)
    for name in ("consent", "continue"):
        assert ada.get(reverse(f"elicitation:{name}", args=(question.pk,))).status_code == 405
    ada.get(question.get_absolute_url())
    question.refresh_from_db()
    assert question.is_open()
    assert question.first_shown_at is not None


def test_the_link_comes_after_the_consent_and_leads_to_the_host_that_was_shown(
    ada: Client, user: User
) -> None:
    question = ask_to_open(user, ADDRESS.replace("login", "LOGIN"), parked=True)
    response = agree(ada, question)
    # To a page of this site: nothing is opened by itself.
    assert response.status_code == 302
    assert response["Location"] == question.get_absolute_url()
    response = ada.get(question.get_absolute_url())
    assert links(response) == [ADDRESS]
    link = page(response).one("a", target="_blank")
    assert link.attrs["rel"] == "noopener noreferrer"
    assert link.attrs["referrerpolicy"] == "no-referrer"
    assert "When you have finished there, come back and press Continue." in page(response).text
    assert "refresh" not in response.content.decode()
    assert StoredFormAnswer.objects.get().action == "accept"


def test_nothing_but_a_browser_opens_the_address(ada: Client, user: User) -> None:
    allow(allow_loopback_http=True)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        elicitation = ask_to_open(user, f"http://127.0.0.1:{listening.getsockname()[1]}/start")
        ada.get(elicitation.get_absolute_url())
        agree(ada, elicitation)
        assert elicitation.url in ada.get(elicitation.get_absolute_url()).content.decode()
        go_on(ada, elicitation)
        call_command("elicitation_cleanup")
        # Nobody has connected: there is none to accept.
        with pytest.raises(BlockingIOError):
            listening.accept()
        with socket.create_connection(listening.getsockname()):
            listening.accept()[0].close()


def test_a_stale_page_consents_to_nothing(ada: Client, user: User) -> None:
    question = ask_to_open(user)
    for fingerprint in ("", "x" * 64):
        response = agree(ada, question, fingerprint=fingerprint)
        assert response.status_code == 409
    assert not StoredFormAnswer.objects.exists()
    assert ada.post(reverse("elicitation:consent", args=(question.pk,))).status_code == 409


def test_a_forms_post_is_no_consent_and_a_form_has_none(ada: Client, user: User) -> None:
    question = ask_to_open(user)
    sent = {"fingerprint": question.fingerprint}
    assert ada.post(question.get_absolute_url(), sent).status_code == 405
    form = ask(user, schema(x={"type": "string"}))
    assert agree(ada, form).status_code == 404
    assert go_on(ada, form).status_code == 404
    assert not StoredFormAnswer.objects.exists()


@pytest.mark.parametrize("act", [agree, go_on, decline])
def test_somebody_elses_question_is_not_found(
    client: Client, user: User, other_user: User, act: Any
) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    client.force_login(other_user)
    response = act(client, question)
    assert response.status_code == 404
    assert SECRET not in response.content.decode()
    inbox.consent(question.pk, by=user)
    assert act(client, question).status_code == 404
    assert client.get(question.get_absolute_url()).status_code == 404


def test_a_stale_token_says_that_nothing_was_sent(user: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(user)
    question = ask_to_open(user)
    for act in (agree, go_on):
        response = act(strict, question)
        assert response.status_code == 403
        assert "Not sent" in page(response).text
        assert act(Client(), question).status_code == 403


def test_two_tabs_agree_and_decline(ada: Client, user: User) -> None:
    question = ask_to_open(user)
    assert agree(ada, question).status_code == 302
    assert agree(ada, question).status_code == 302
    # The call has ended, as far as this site knows: there is nothing to take back.
    response = decline(ada, question)
    assert response.status_code == 409
    assert "already answered" in page(response).text
    other = ask_to_open(user, call="call-2")
    assert decline(ada, other).status_code == 302
    assert agree(ada, other).status_code == 409


@pytest.mark.parametrize("state", ["declined", "expired", "withdrawn"])
def test_a_closed_question_has_no_address(ada: Client, user: User, state: str) -> None:
    question = ask_to_open(user, ADDRESS)
    if state == "declined":
        decline(ada, question)
    elif state == "expired":
        Elicitation.objects.update(expires_at=timezone.now())
    else:
        inbox.withdraw(question.pk)
    for response in (ada.get(question.get_absolute_url()), agree(ada, question)):
        assert SECRET not in response.content.decode()
        assert links(response) == []
    inbox.expire(question.pk)
    question.refresh_from_db()
    assert (question.state, question.url) == (state, "")


# --- Afterwards ------------------------------------------------------------------------------


def test_continue_wakes_the_call_and_the_page_looks_for_news(ada: Client, user: User) -> None:
    question = ask_to_open(user, parked=True)
    agree(ada, question)
    assert go_on(ada, question)["Location"] == question.get_absolute_url()
    response = ada.get(question.get_absolute_url())
    assert "You said that you have finished." in page(response).text
    assert "data-elicitation-refresh" in response.content.decode()
    # The call has gone on to its end.
    ParkedCall.objects.all().delete()
    Elicitation.objects.update(delivered_at=timezone.now(), delivery="delivered")
    response = ada.get(question.get_absolute_url())
    assert "You have nothing more to do here" in page(response).text
    assert "data-elicitation-refresh" not in response.content.decode()
    assert not page(response).all("button")
    # A server that was content with the consent: the person still has to get there.
    assert links(response) != []


def test_the_next_question_of_the_call_is_led_to(ada: Client, user: User) -> None:
    question = ask_to_open(user, parked=True)
    agree(ada, question)
    go_on(ada, question)
    following = ask(user, schema(), parked_call_id=question.parked_call_id, round=2)
    response = ada.get(question.get_absolute_url())
    assert following.get_absolute_url() in response.content.decode()
    assert "has another request" in page(response).text


def test_declining_afterwards_takes_the_consent_back(ada: Client, user: User) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    agree(ada, question)
    assert decline(ada, question).status_code == 302
    response = ada.get(question.get_absolute_url())
    assert "You declined" in page(response).text
    assert SECRET not in response.content.decode()
    assert StoredFormAnswer.objects.get().action == "decline"


def test_the_link_is_gone_when_the_consent_has_expired(ada: Client, user: User) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    agree(ada, question)
    Elicitation.objects.update(closed_at=timezone.now() - timedelta(minutes=31))
    response = ada.get(question.get_absolute_url())
    assert "The time to open the link is over." in page(response).text
    assert SECRET not in response.content.decode()
    # Whoever took longer than that over it can still say that they have finished.
    assert page(response).all("button")[0].text == "Continue"
    go_on(ada, question)
    question.refresh_from_db()
    assert question.continued_at is not None
    ParkedCall.objects.all().delete()
    response = ada.get(question.get_absolute_url())
    assert "You agreed to open the link" in page(response).text
    assert SECRET not in response.content.decode()
    assert not page(response).all("button")


def test_the_link_is_for_whoever_agreed(
    client: Client, user: User, other_user: User, settings: SettingsWrapper
) -> None:
    settings.ELICITATION_ACCESS = "elicitation.inbox.access.PermissionAccess"
    other_user.is_superuser = True
    other_user.save()
    question = ask_to_open(user, ADDRESS, parked=True)
    inbox.consent(question.pk, by=user)
    client.force_login(other_user)
    response = client.get(question.get_absolute_url())
    assert response.status_code == 200
    assert SECRET not in response.content.decode()
    assert agree(client, question).status_code == 409


def test_an_operator_who_changes_the_policy_takes_consent_and_link_away(
    ada: Client, user: User
) -> None:
    policy = allow()
    first, second = ask_to_open(user, ADDRESS, parked=True), ask_to_open(user, ADDRESS, call="2")
    agree(ada, first)
    policy.allowed_domains = "example.org"
    policy.save()
    for response in (
        ada.get(first.get_absolute_url()),
        ada.get(second.get_absolute_url()),
        refused := agree(ada, second),
    ):
        assert SECRET not in response.content.decode()
        assert "no longer lets the server ask for it" in page(response).text
    assert refused.status_code == 409
    second.refresh_from_db()
    assert second.is_open()


# --- What is shown of an address -------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "says", "html"),
    [
        ("https://bücher.de/", "letters beyond a to z", "<strong><bdi>bücher</bdi>.<bdi>de</bdi>"),
        ("https://xn--bcher-kva.de/", "xn--bcher-kva.de", "<bdi>bücher</bdi>"),
        (
            "https://аррӏе.com/",
            "Some letters of the name in the link look like other letters",
            "xn--",
        ),
        ("https://аmazon.com/", "mixes letters of several scripts", "xn--"),
        ("https://testserver.evil.example/", "", "https://testserver.evil.example/"),
        ("https://10.0.0.7/", "to a private network", "https://10.0.0.7/"),
        ("https://10.0.0.7/", "The host of the link is a number", "https://10.0.0.7/"),
        ("https://[::1]/", "to your own computer", "https://[::1]/"),
        ("http://localhost/", "not encrypted", "http://localhost/"),
        ("https://intranet/", "to a private network", "https://intranet/"),
        ("https://evil.unheard-of/x", "", "https://evil.unheard-of/x"),
        (f"https://{'a' * 63}.com/", "The name in the link is very long", "<strong>"),
    ],
)
def test_what_a_person_should_know_of_an_address_is_said(
    ada: Client, user: User, address: str, says: str, html: str
) -> None:
    allow(allow_loopback_http=True)
    response = ada.get(ask_to_open(user, address).get_absolute_url())
    assert says in page(response).text
    assert html in response.content.decode()


def test_an_address_that_imitates_this_site_is_named_as_such(
    user: User, settings: SettingsWrapper
) -> None:
    settings.ALLOWED_HOSTS = ["shop.example.org"]
    client = Client(headers={"host": "shop.example.org"})
    client.force_login(user)
    question = ask_to_open(user, "https://shop.example.org.evil.net/")
    response = client.get(question.get_absolute_url())
    assert "The link looks like a link to this site, but it is not." in page(response).text
    agree(client, question)
    response = client.get(question.get_absolute_url())
    assert "The link looks like a link to this site, but it is not." in page(response).text


def test_markup_in_an_address_stays_text(ada: Client, user: User) -> None:
    question = ask_to_open(user, "https://example.com/?a='&amp;b={{1}}{%25}")
    for _ in range(2):
        source = ada.get(question.get_absolute_url()).content.decode()
        assert "&#x27;&amp;amp;b={{1}}{%25}" in source
        agree(ada, question)


@pytest.mark.slow
def test_a_hostile_message_stays_text(ada: Client, user: User) -> None:
    def shown(message: str) -> list[list[str]]:
        """Return the tags before and after the person agreed."""
        question = ask_to_open(user, message=message)
        before = page(ada.get(question.get_absolute_url()))
        agree(ada, question)
        after = page(ada.get(question.get_absolute_url()))
        question.delete()
        return [tags(before), tags(after)]

    calm = shown("calm")
    shown_here = 0
    for text in HOSTILE:
        try:
            assert shown(f"{text}.") == calm, repr(text)
        except SchemaRefusal:
            # Refused as a whole: it holds control characters.
            continue
        shown_here += 1
    assert shown_here > 50


# --- Everywhere else -------------------------------------------------------------------------


def test_the_inbox_names_the_host_as_text(ada: Client, user: User) -> None:
    question = ask_to_open(user, ADDRESS, parked=True)
    for _ in range(2):
        response = ada.get(reverse("elicitation:inbox"))
        assert "The link to open leads to login.example.com" in page(response).text
        assert links(response) == []
        assert SECRET not in response.content.decode()
        agree(ada, question)


def test_a_sites_own_page_leads_to_the_question_and_not_to_the_address(user: User) -> None:
    request = RequestFactory().get("/chat/")
    request.user = user
    question = ask_to_open(user, ADDRESS)
    shown = Template("{% load elicitation %}{% elicitation_form question %}").render(
        Context({"request": request, "question": question})
    )
    assert question.get_absolute_url() in shown
    assert "<form" not in shown
    assert SECRET not in shown


def test_an_e_mail_has_nothing_of_the_address(user: User, settings: SettingsWrapper) -> None:
    settings.ELICITATION_BASE_URL = "https://site.test"
    assert send_email(ask_to_open(user, ADDRESS).pk)
    (message,) = mail.outbox
    assert "login" not in str(message.message())


def test_an_error_report_has_nothing_of_the_address(
    ada: Client, user: User, monkeypatch: pytest.MonkeyPatch, settings: SettingsWrapper
) -> None:
    settings.DEBUG = False
    ada.raise_request_exception = False
    reports: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            reporter = ExceptionReporter(record.request, *sys.exc_info(), is_email=True)
            reports.extend([reporter.get_traceback_html(), reporter.get_traceback_text()])

    handler = Handler()
    logging.getLogger("django.request").addHandler(handler)

    def fail(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("broken")

    question = ask_to_open(user, ADDRESS, parked=True)
    try:
        monkeypatch.setattr("elicitation.pages.views.render", fail)
        assert ada.get(question.get_absolute_url()).status_code == 500
        monkeypatch.setattr("elicitation.inbox.closing.record", fail)
        assert agree(ada, question).status_code == 500
        monkeypatch.undo()
        agree(ada, question)
        monkeypatch.setattr("elicitation.pages.views.render", fail)
        assert ada.get(question.get_absolute_url()).status_code == 500
    finally:
        logging.getLogger("django.request").removeHandler(handler)
    assert len(reports) == 6
    for report in reports:
        assert "broken" in report
        assert SECRET not in report


def test_a_refusal_has_nothing_of_the_address_in_its_frames(settings: SettingsWrapper) -> None:
    settings.DEBUG = False
    with pytest.raises(URLRefusal) as refused:
        ServerPolicy(server="shop").parse_url(f"https://{SECRET}@example.com/")
    reporter = ExceptionReporter(None, refused.type, refused.value, refused.tb, is_email=True)
    assert "user name or password" in reporter.get_traceback_html()
    assert SECRET not in reporter.get_traceback_html()


def test_queries_do_not_grow(
    ada: Client, user: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    question = ask_to_open(user, parked=True)
    # One of them, the first time alone, finds whether this person has met the server.
    with django_assert_num_queries(7):
        ada.get(question.get_absolute_url())
    agree(ada, question)
    with django_assert_num_queries(5):
        ada.get(question.get_absolute_url())


# --- The policy ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "https://example.com",
        "example.com/path",
        "example.com:8443",
        "example.com:443",
        "*",
        "*.com",
        "*.10.0.0.1",
        "*.*.example.com",
        "a b.example",
        "user@example.com",
        ".example.com",
        "example.com.",
        "example.com?x",
    ],
)
def test_a_domain_that_is_none_is_refused_when_it_is_saved(line: str) -> None:
    policy = ServerPolicy(server="shop", allowed_domains=f"example.org\n{line}")
    with pytest.raises(ValidationError, match="Write one host per line"):
        policy.full_clean(exclude=["id"])
    # Saved all the same, it allows nothing.
    policy.allowed_domains = line
    assert not policy.allows_host("example.com")
    assert not policy.allows_host("a.example.com")


@pytest.mark.parametrize(
    ("domains", "host", "allowed"),
    [
        ("", "anything.test", True),
        (" \n\n", "anything.test", True),
        ("example.com", "example.com", True),
        ("EXAMPLE.com\r\n", "example.com", True),
        ("example.com", "a.example.com", False),
        ("example.com", "badexample.com", False),
        ("*.example.com", "a.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "badexample.com", False),
        ("bücher.de", "xn--bcher-kva.de", True),
        ("*.bücher.de", "a.xn--bcher-kva.de", True),
        ("localhost", "localhost", True),
        ("127.0.0.1", "127.0.0.1", True),
        ("[::1]", "[::1]", True),
    ],
)
def test_which_hosts_a_policy_allows(domains: str, host: str, allowed: bool) -> None:
    policy = ServerPolicy(server="shop", allowed_domains=domains)
    policy.full_clean(exclude=["id"])
    assert policy.allows_host(host) is allowed
