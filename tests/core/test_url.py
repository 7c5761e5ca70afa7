"""The address of a URL mode elicitation: each with its verdict, and what holds for all."""

import pickle
import traceback
import unicodedata
from dataclasses import FrozenInstanceError
from functools import partial
from importlib import import_module, resources
from typing import Any

import ada_url
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elicitation.core import (
    LONG_HOST_CHARS,
    MAX_ELICITATION_URL_CHARS,
    URL_WARNINGS,
    ElicitationRefusal,
    ElicitationURL,
    URLRefusal,
)
from elicitation.core import parse_elicitation_url as parse_without_the_list
from elicitation.public_suffixes import registrable_domain

from .addresses import OPENS, OPENS_ON_THIS_MACHINE, REFUSED, SITE_HOST, START, Opens

REASONS = set(REFUSED.values())

domains, url_module = (import_module(f"elicitation.core.{name}") for name in ("domains", "url"))

parse_elicitation_url = partial(parse_without_the_list, registrable_domain=registrable_domain)


@pytest.mark.parametrize("case", OPENS, ids=lambda case: ascii(case.text[:60]))
def test_these_are_shown(case: Opens) -> None:
    url = parse_elicitation_url(case.text, site_host=SITE_HOST)
    assert (url.text, url.scheme) == (case.text, "https")
    assert (url.host, url.unicode_host, url.port) == (case.host, case.shown, case.port)
    assert url.registrable_domain == case.domain
    assert " ".join(url.warnings) == case.warnings
    # Nothing in a link changes what was shown.
    opened = ada_url.URL(case.text)
    assert opened.hostname == url.host
    assert opened.port == ("" if url.port is None else str(url.port))
    again = parse_elicitation_url(url.href, site_host=SITE_HOST)
    assert (again.host, again.port, again.rest) == (url.host, url.port, url.rest)
    assert again.href == url.href
    assert url.href.isascii()


@pytest.mark.parametrize("case", OPENS_ON_THIS_MACHINE, ids=lambda case: case.text)
def test_plain_http_leads_to_this_machine_where_it_may(case: Opens) -> None:
    url = parse_elicitation_url(case.text, allow_loopback_http=True)
    assert (url.scheme, url.host, url.port) == ("http", case.host, case.port)
    assert " ".join(url.warnings) == case.warnings
    with pytest.raises(URLRefusal, match="it is not https"):
        parse_elicitation_url(case.text)


@pytest.mark.parametrize(
    "text",
    ["http://example.com/", "http://10.0.0.1/", "http://localhost.evil.net/", "http://intranet/",
     "http://0.0.0.0/", "http://notlocalhost/", "http://127.0.0.1.nip.io/"],
)  # fmt: skip
def test_plain_http_leads_nowhere_else(text: str) -> None:
    with pytest.raises(URLRefusal, match="it is not https"):
        parse_elicitation_url(text, allow_loopback_http=True)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:60]))
def test_these_are_refused(text: str) -> None:
    with pytest.raises(ElicitationRefusal) as caught:
        parse_elicitation_url(text)
    assert isinstance(caught.value, URLRefusal)
    assert caught.value.code == "url"
    assert caught.value.property is None
    assert caught.value.reason == REFUSED[text]
    assert str(caught.value) == f"The elicitation's URL is refused: {REFUSED[text]}."


def test_the_tables_are_large() -> None:
    assert len({case.text for case in OPENS}) == len(OPENS) > 80
    assert len(REFUSED) > 200


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [None, 1, b"https://example.com/", ["https://example.com/"],
                                   Text("https://example.com/")])  # fmt: skip
def test_what_is_no_text_is_refused(value: object) -> None:
    with pytest.raises(URLRefusal, match="it is not a string"):
        parse_elicitation_url(value)


def test_the_bound_is_an_argument() -> None:
    text = "https://example.com/"
    assert parse_elicitation_url(text, max_chars=20).text == text
    with pytest.raises(URLRefusal, match="longer than 19 characters"):
        parse_elicitation_url(text, max_chars=19)


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: ascii(text[:60]))
def test_a_refusal_repeats_nothing_of_the_address(text: str) -> None:
    secret = "s3cr3t-v4lue"
    for marked in (f"{text}{secret}", text.replace("example", secret)):
        try:
            parse_elicitation_url(marked)
        except URLRefusal as refusal:
            shown = "".join(traceback.format_exception_only(refusal)) + repr(vars(refusal))
            assert secret not in shown
            assert (refusal.__cause__, refusal.__context__) == (None, None)  # noqa: PT017


def test_an_address_does_not_log_its_query() -> None:
    url = parse_elicitation_url("https://bücher.de/path?key=s3cr3t#s3cr3t")
    assert repr(url) == str(url) == f"{url}" == "ElicitationURL(host='xn--bcher-kva.de')"
    assert url.rest == "/path?key=s3cr3t#s3cr3t"


def test_an_address_is_a_value() -> None:
    url = parse_elicitation_url("https://login.bücher.de:8443/?q")
    assert url == pickle.loads(pickle.dumps(url)) == parse_elicitation_url(url.text)  # noqa: S301
    assert len({url, parse_elicitation_url(url.text)}) == 1
    assert not hasattr(url, "__dict__")
    with pytest.raises(FrozenInstanceError):
        url.host = "example.com"  # type: ignore[misc]
    with pytest.raises(TypeError):
        ElicitationURL("https://example.com")  # type: ignore[call-arg,misc]


def test_an_address_in_its_parts() -> None:
    url = parse_elicitation_url("https://Login.Bücher.de:8443/?q")
    assert url.registrable_domain is not None
    assert (url.subdomain, url.registrable_domain) == ("login.", "bücher.de")
    assert url.subdomain + url.registrable_domain == url.unicode_host
    assert url.href == "https://login.xn--bcher-kva.de:8443/?q"
    # Nothing stands out where nothing is certain.
    assert parse_elicitation_url("https://a.b.unheard-of").subdomain == "a.b.unheard-of"


@pytest.mark.parametrize(
    ("site_host", "text", "imitates"),
    [
        ("", "https://example.com.evil.net/", False),
        ("app.example.com", "https://example.com/", False),
        ("app.example.com", "https://other.example.com/", False),
        ("app.example.com", "https://example.com.evil.net/", True),
        ("app.example.com.", "https://example.com.evil.net/", True),
        ("APP.EXAMPLE.COM:8000", "https://example.com.evil.net/", True),
        ("app.example.com", "https://examples.com/", False),
        ("my-site.com", "https://my.site.com/", True),
        ("clvv.com", "https://dw.com/", True),
        ("łódź.com", "https://lodz.com/", True),
        # A site without a domain that is certain is compared as a whole.
        ("app.corp.internal", "https://corp.internal/", False),
        ("app.corp.internal", "https://app.corp.internal.evil.net/", True),
        ("me.github.io", "https://you.github.io/", False),
        ("me.github.io", "https://me.github.io.evil.net/", True),
        ("intranet", "https://intranet/", False),
        ("intranet", "https://intranet.evil.net/", False),
        ("intranet", "https://1ntranet/", True),
        # None of these has a name to imitate.
        ("192.0.2.1", "https://192.0.2.1.evil.net/", False),
        ("[::1]:8000", "https://localhost/", False),
        ("not a host", "https://example.com/", False),
        ("example.com:port", "https://example.com.evil.net/", False),
    ],
)
def test_what_imitates_the_site(site_host: str, text: str, imitates: bool) -> None:
    warnings = parse_elicitation_url(text, site_host=site_host).warnings
    assert ("imitates" in warnings) is imitates


# --- Whose a host is -------------------------------------------------------------------------


def test_nothing_stands_out_without_the_list() -> None:
    url = parse_without_the_list("https://login.example.com/", site_host="example.com")
    assert (url.subdomain, url.registrable_domain) == ("login.example.com", None)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.evil.supabase.co", "evil.supabase.co"),
        ("a.evil.vercel.dev", "evil.vercel.dev"),
        ("a.evil.azurestaticapps.net", "evil.azurestaticapps.net"),
        ("a.evil.1.azurestaticapps.net", "evil.1.azurestaticapps.net"),
        ("supabase.co", None),
        # A wildcard, and an exception to one.
        ("a.b.evil.ck", "b.evil.ck"),
        ("evil.ck", None),
        ("a.www.ck", "www.ck"),
        # A rule that is written in letters, and a host that is not, and the other way round.
        ("evil.xn--55qx5d.cn", "evil.公司.cn"),
        ("a.evil.公司.cn", "evil.公司.cn"),
    ],
)
def test_each_rule_of_the_list_counts(host: str, domain: str | None) -> None:
    assert parse_elicitation_url(f"https://{host}/").registrable_domain == domain


def rules() -> list[str]:
    """The rules of the list as its file has them."""
    file = resources.files("publicsuffixlist") / "public_suffix_list.dat"
    lines = file.read_text("utf-8").splitlines()
    return [line.split()[0] for line in lines if line.strip() and not line.startswith("//")]


def test_every_customer_has_a_name_of_their_own() -> None:
    every = set(rules())
    assert len(every) > 9000
    plain = [rule for rule in every if rule[0] not in "*!"]
    for rule in plain:
        url = parse_elicitation_url(f"https://a.evil-customer.{rule}/")
        # A wildcard below the rule takes one label more.
        wanted = "evil-customer" if f"*.{rule}" not in every else "a.evil-customer"
        assert url.registrable_domain == f"{wanted}.{url.unicode_host.split('.', 2)[2]}", rule


# --- Whatever is sent ------------------------------------------------------------------------

pieces = st.sampled_from(
    [
        *"https:// HTTPS: http:// // / \\ @ : :: [ ] ? # . .. %2e %00 % xn-- XN-- ü Ü ß - -- _ l "
        "xn--bcher-kva example com co.uk localhost 127.0.0.1 0x7f 1 443 :443 65536 \u1e9e u\u0308 "
        "\u0430 \u30ce \u05d0 \u0661 \u200d \u202e \u3002 \uff0e \u2100 \u00b7 \ud800 \x00 "
        "\u1100\u1161 \u0301 \U0010ffff".split(" "),
        "\t",
        " ",
        "a" * 63,
        "ü" * 40,
    ]
)
letters = st.characters(categories=["Ll", "Lu", "Lo", "Lm", "Mn", "Mc", "Nd"])
labels = st.one_of(
    st.from_regex(r"[a-z0-9_-]{1,9}", fullmatch=True),
    st.from_regex(r"xn--[a-z0-9-]{0,12}", fullmatch=True),
    st.text(letters, min_size=1, max_size=4),
    st.text(st.sampled_from("аеорсухбükßéя1-"), min_size=1, max_size=8),
    st.text(st.sampled_from("\u05d0\u05d1\u0627\u0661\u06f11a-_"), min_size=1, max_size=5),
)
hosts = st.one_of(
    st.lists(labels, min_size=1, max_size=4).map(".".join),
    st.ip_addresses(v=4).map(str),
    st.ip_addresses(v=6).map("[{}]".format),
)
likely = st.builds(
    "https://{}{}{}".format,
    hosts,
    st.sampled_from(["", "", ":443", ":8443"]),
    st.sampled_from(["", "/", "/a?b#c", "?d", "#e"]),
)
anything = st.one_of(
    st.text(), st.text(st.characters(codec=None)), st.lists(pieces).map("".join), likely,
    st.builds(lambda text, more: text + "".join(more), likely, st.lists(pieces, max_size=2)),
)  # fmt: skip


@pytest.mark.slow
@settings(deadline=None, max_examples=600)
@given(anything, st.booleans(), st.one_of(st.just(""), st.text(), hosts))
@example("https://xn--" + "9" * 58 + "/", False, "")
def test_anything_is_shown_or_refused_and_nothing_else(
    text: str, allow_loopback_http: bool, site_host: str
) -> None:
    try:
        url = parse_elicitation_url(
            text, allow_loopback_http=allow_loopback_http, site_host=site_host
        )
    except URLRefusal as refusal:
        assert refusal.reason in REASONS  # noqa: PT017
        return
    assert url.text == text
    assert url.scheme == "https" or (allow_loopback_http and "loopback" in url.warnings)
    assert url.host.isascii()
    assert url.host == url.host.lower()
    assert ("idn" in url.warnings) is (url.host != url.unicode_host)
    assert set(url.warnings) <= set(URL_WARNINGS)
    assert url.href.isascii()
    assert url.href.isprintable()
    domain = url.registrable_domain
    assert domain is None or f".{url.unicode_host}".endswith(f".{domain}")
    # What a link holds is read as what was shown: here, and by the URL Standard's rules.
    for opened in (ada_url.URL(text), ada_url.URL(url.href)):
        assert opened.protocol == f"{url.scheme}:"
        assert opened.hostname == url.host
        assert opened.port == ("" if url.port is None else str(url.port))
        assert opened.username == opened.password == ""
    again = parse_elicitation_url(url.href, allow_loopback_http=allow_loopback_http)
    assert (again.host, again.unicode_host, again.port) == (url.host, url.unicode_host, url.port)


@settings(deadline=None)
@given(hosts, st.sampled_from(["example.com", "evil.co.uk", "evil.github.io"]))
def test_nobody_stands_out_with_what_they_do_not_own(before: str, own: str) -> None:
    try:
        url = parse_elicitation_url(f"https://{before}.{own}/")
    except URLRefusal:
        return
    assert url.registrable_domain == own


@pytest.mark.parametrize(
    "text",
    [
        "https://" * 250,
        "https://" + "a." * 996,
        "https://" + "." * 1992,
        "https://" + "1." * 125 + "1",
        "https://" + "[" * 1992,
        "https://" + ":" * 1992,
        "https://" + "ü" * 253,
        "https://" + "q\u0301" * 126,
        "https://" + "@" * 1992,
        "https://" + "xn--9." * 42,
        "https://a/" + "/." * 990,
        "https://a/" + "%2e" * 660 + "/..",
        "h" * 10_000_000,
        "\ufdfa" * 2000,
    ],
    ids=lambda text: ascii(text[:20]),
)
def test_no_address_takes_long(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    characters = 0

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(unicodedata, name)

        def normalize(self, form: str, part: str) -> str:
            nonlocal characters
            characters += len(part)
            return unicodedata.normalize(form, part)

    for module in (domains, url_module):
        monkeypatch.setattr(module, "unicodedata", Counting())
    with pytest.raises(URLRefusal):
        parse_elicitation_url(text)
    # The longest host has 253 characters; each is looked at a few times.
    assert characters <= 5 * 253


def test_the_constants() -> None:
    assert (MAX_ELICITATION_URL_CHARS, LONG_HOST_CHARS) == (2000, 60)
    assert len(set(URL_WARNINGS)) == len(URL_WARNINGS)
    assert START in REASONS
