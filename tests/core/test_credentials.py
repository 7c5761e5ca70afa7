"""What names a credential, and what looks like one."""

import base64
import json

import pytest

from elicitation.core import looks_like_a_credential, names_a_credential


@pytest.mark.parametrize(
    "text",
    ["password", "Passwd", "PASSPHRASE", "passcode", "pwd", "client_secret", "token",
     "apikey", "APIKEY", "credential", "Credentials", "pin", "userPin", "user2Pin", "otp", "TOTP",
     "mfa", "2fa", "2FA", "my 2FA code", "enable-2fa", "cvv", "cvc", "ssn", "api_key", "apiKey",
     "API key", "accessKey",
     "private.key", "secret-key", "Card number", "security code", "verification code",
     "one-time code", "Confirm your password"],
)  # fmt: skip
def test_these_name_a_credential(text: str) -> None:
    assert names_a_credential(text)


@pytest.mark.parametrize(
    "text",
    ["pass code", "spinner", "tokenizer_choice", "keyboard", "opinion", "key", "code", "number",
     "card", "PINcode", "card holder number", "", "名前", "Pinnwand", "apiKeyboard"],
)  # fmt: skip
def test_these_do_not(text: str) -> None:
    assert not names_a_credential(text)


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


JWT = f"{part({'alg': 'HS256', 'typ': 'JWT'})}.{part({'sub': '1'})}.c2lnbmF0dXJl"
A, H = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1eF3hJ5", "0123456789abcdef" * 4

FOUND = {
    "AKIAIOSFODNN7EXAMPLE": "AWS access key",
    "ASIAIOSFODNN7EXAMPLE": "AWS access key",
    **{f"gh{kind}_{A}": "GitHub token" for kind in "pousr"},
    f"github_pat_{A}": "GitHub token",
    f"glpat-{A[:20]}": "GitLab token",
    **{f"xox{kind}-123456789012-{A}": "Slack token" for kind in "abpr"},
    f"sk-{A}": "OpenAI key",
    f"sk-proj-{A}": "OpenAI key",
    f"sk-ant-api03-{A}": "Anthropic key",
    f"sk-or-v1-{H}": "OpenRouter key",
    f"sk_live_{A}": "Stripe key",
    f"rk_live_{A}": "Stripe key",
    f"whsec_{A}": "Stripe key",
    f"AIza{A[:35]}": "Google key",
    f"GOCSPX-{A}": "Google key",
    f"npm_{A}": "npm token",
    f"pypi-AgEIcHlwaS5vcmc{A}": "PyPI token",
    f"pypi-{A}{A}": "PyPI token",
    f"SG.{A[:22]}.{A}": "SendGrid key",
    f"SK{H[:32]}": "Twilio key",
    f"hf_{A}": "Hugging Face token",
    f"dop_v1_{H}": "DigitalOcean token",
    f"dapi{H[:32]}": "Databricks token",
    f"shpat_{H[:32]}": "Shopify token",
    f"hvs.{A}": "Vault token",
    f"123456789:AA{A}": "Telegram bot token",
    "-----BEGIN PRIVATE KEY-----\nMIIE": "private key",
    "-----BEGIN RSA PRIVATE KEY-----": "private key",
    "-----BEGIN OPENSSH PRIVATE KEY-----": "private key",
    "-----BEGIN PGP PRIVATE KEY BLOCK-----": "private key",
    "PuTTY-User-Key-File-3: ssh-ed25519": "private key",
    JWT: "JSON Web Token",
    f"token.{JWT}": "JSON Web Token",
    f"{part({'alg': 'none'})}.{part({})}.": "JSON Web Token",
}


@pytest.mark.parametrize("text", FOUND, ids=lambda text: text[:16].strip("-"))
def test_a_known_format_is_found_wherever_it_stands(text: str) -> None:
    name = FOUND[text]
    assert looks_like_a_credential(text) == name
    assert looks_like_a_credential(f"Here it is: {text}\nbye") == name
    assert looks_like_a_credential(f'"{text}"') == name
    hidden = "\u200b".join(text[i : i + 3] for i in range(0, len(text), 3))
    assert looks_like_a_credential(hidden) == name


@pytest.mark.parametrize(
    "text",
    ["", "hello", "sk-8 shoes", "sk-short", "pypi-server", "a task-force-of-twenty-or-more-people",
     "AKIA", "my npm_config", "hf_", "SG.1.2", "SK-II", "skyline", "xoxo-hugs", "ghp_short",
     "https://example.org/a.b.c", "eyJust.kidding.friends", "example.org.uk", "1.2.3",
     "-----BEGIN PUBLIC KEY-----", "-----BEGIN CERTIFICATE-----", "AKIAIOSFODNN7EXAMPLES",
     "disk-aB3dE5gH7jK9mN1pQ3sT5v", "550e8400-e29b-41d4-a716-446655440000",
     f"e{'a' * 12}.bb.cc", f"{part([1, 2, 3, 4, 5])}.bb.cc", f"eyJ{'a' * 5000}.bb.cc",
     f"{part('e' * 20)}.bb.cc"],
)  # fmt: skip
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert looks_like_a_credential(text[:6000]) is None


def test_a_header_nested_too_deeply_is_no_header() -> None:
    header = base64.urlsafe_b64encode(b'{"a":' + b"[" * 3000).decode().rstrip("=")
    assert looks_like_a_credential(f"{header}.bb.cc") is None


@pytest.mark.parametrize(
    "unit",
    ["eyJ", "eyJaaaaaaaa.", "sk-", "SG.aaaaaaaaaaaaaaaaaaaa.", "-----BEGIN ", "A", "0123456789:"],
)
def test_long_text_is_searched_in_linear_time(unit: str) -> None:
    # Were it quadratic, a text of this length would not be done in hours.
    assert looks_like_a_credential(unit * (1_000_000 // len(unit))) is None
