"""Settings, read at call time and never at import.

Each property is one Django setting, ``ELICITATION_<name>``; its default stands beside it. A
setting of the wrong type raises ``ImproperlyConfigured`` where it is read, and the system
checks (``elicitation.checks``) read them all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from types import ModuleType
from typing import Any, Final, TypeVar, cast
from uuid import UUID

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from .core import FORM_ANSWER_TTL

T = TypeVar("T")

#: The longest duration of a setting: from any day of this era it leads to another.
LONGEST: Final = timedelta(days=36_500)
#: How often something may be done at most that a row counts in a small column.
MOST_TIMES: Final = 10_000


def _is_string(value: object) -> bool:
    return isinstance(value, str)


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_flag(value: object) -> bool:
    return isinstance(value, bool)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(_is_string, value))


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_string, [*value, *value.values()]))


def _is_url(value: object) -> bool:
    return isinstance(value, str) and value.startswith(("https://", "http://"))


#: Keys of a server, each with what its value must be, as a test and in words.
_Keys = Mapping[str, tuple[Callable[[object], bool], str]]

#: The decisions of an operator about a server: fields of ``ServerPolicy``, which checks more.
_DECISIONS: Final[_Keys] = {
    "label": (_is_string, "a string"),
    "policy": (_is_string, "a string"),
    "tools": (_is_table, "a dictionary of strings: a rule for each name"),
    "allow_confirmation": (_is_flag, "True or False"),
    "wide_limits": (_is_flag, "True or False"),
    "prefill": (_is_flag, "True or False"),
    "people_may_stop": (_is_flag, "True or False"),
    "allowed_domains": (_is_list, "a list of strings"),
    "allow_loopback_http": (_is_flag, "True or False"),
    "retention_days": (_is_number, "a whole number"),
}

#: How a server is reached: the keys of MCP's configuration files, and ``auth``.
_OVER_HTTP: Final[_Keys] = {
    "url": (_is_url, "a string that begins with https:// or http://"),
    "headers": (_is_table, "a dictionary of strings"),
    "auth": (
        lambda value: _is_filled(value) or callable(value),
        "a callable, or the dotted path of one",
    ),
}
_AS_A_PROGRAM: Final[_Keys] = {
    "command": (_is_filled, "a string: the program to start"),
    "args": (_is_list, "a list of strings"),
    "env": (_is_table, "a dictionary of strings"),
    "cwd": (lambda value: isinstance(value, str | os.PathLike), "a path"),
}
_KEYS: Final[_Keys] = {**_OVER_HTTP, **_AS_A_PROGRAM, **_DECISIONS}


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedServer:
    """A server of ``ELICITATION_SERVERS``: either ``url`` or ``command`` says how it is reached.

    ``auth`` gets the user, ``None`` where there is none, and returns headers or an
    ``httpx2.Auth``. ``decisions`` are fields of a ``ServerPolicy``.
    """

    name: str
    # No part of a repr, which may end in a log: these hold secrets.
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    auth: Callable[[Any], object] | None = field(default=None, repr=False)
    command: str = field(default="", repr=False)
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] | None = field(default=None, repr=False)
    cwd: str | os.PathLike[str] | None = field(default=None, repr=False)
    decisions: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, name: str, options: object) -> NamedServer:
        """Return the server that an entry of ``ELICITATION_SERVERS`` describes.

        Raises:
            ImproperlyConfigured: It describes none. The text names server and key, and no value.
        """
        if not isinstance(options, Mapping):
            raise _wrong(name, "must be a dictionary, with 'url' or 'command'.")
        for key, value in options.items():
            if key not in _KEYS:
                known = ", ".join(map(repr, _KEYS))
                raise _wrong(name, f"has a key that it cannot have. It can have {known}.", key)
            fits, noun = _KEYS[key]
            if not fits(value):
                raise _wrong(name, f"must be {noun}.", key)
        if ("url" in options) == ("command" in options):
            raise _wrong(name, "must have either 'url' or 'command'.")
        given, others = ("url", _AS_A_PROGRAM) if "url" in options else ("command", _OVER_HTTP)
        for key in options:
            if key in others:
                raise _wrong(name, f"does not go with '{given}'. Remove one of them.", key)
        values = {key: value for key, value in options.items() if key not in _DECISIONS}
        values["decisions"] = {key: options[key] for key in _DECISIONS if key in options}
        if "args" in values:
            values["args"] = tuple(values["args"])
        if isinstance(values.get("auth"), str):
            values["auth"] = _loaded_callable(f"SERVERS[{name!r}]['auth']", values["auth"])
        return cls(name=name, **values)


def _wrong(server: str, text: str, key: str = "") -> ImproperlyConfigured:
    """Return the error about an entry of ``ELICITATION_SERVERS``, or about a key of it."""
    where = f"[{key!r}]" if key else ""
    return ImproperlyConfigured(f"ELICITATION_SERVERS[{server!r}]{where} {text}")


class Settings:
    """The app's settings as typed properties."""

    @property
    def SERVERS(self) -> Mapping[str, object]:
        """The MCP servers by their names, as they were set; ``server`` reads one of them."""
        found: dict[str, object] = self._typed(
            "SERVERS", {}, (dict,), "a dictionary of dictionaries, by name"
        )
        if not all(map(_is_filled, found)):
            raise ImproperlyConfigured("The names in ELICITATION_SERVERS must be strings.")
        return found

    def server(self, name: str) -> NamedServer | None:
        """Return a server of ``ELICITATION_SERVERS``; ``None`` if there is none of this name.

        Raises:
            ImproperlyConfigured: Its entry is wrong.
        """
        servers = self.SERVERS
        return NamedServer.parse(name, servers[name]) if name in servers else None

    def named_server(self, name: str) -> NamedServer:
        """Return a server of ``ELICITATION_SERVERS``.

        Raises:
            ImproperlyConfigured: There is none of this name, or its entry is wrong.
        """
        found = self.server(name)
        if found is None:
            raise ImproperlyConfigured(
                f"ELICITATION_SERVERS has no server {name!r}. Add it, with its 'url' or 'command'."
            )
        return found

    @property
    def QUEUE(self) -> str:
        """The dotted path of the queue that calls which can go on are given to."""
        return self._typed(
            "QUEUE",
            "elicitation.calls.queues.worker",
            (str,),
            "the dotted path of a module or a callable",
        )

    def enqueue(self) -> Callable[[UUID], object]:
        """Return what is called with the id of a call that can go on.

        It is the function ``enqueue`` of the module that ``ELICITATION_QUEUE`` names, or what it
        names itself.

        Raises:
            ImproperlyConfigured: There is no such thing.
        """
        return _loaded_callable("QUEUE", self.QUEUE, of_module="enqueue")

    @property
    def QUESTION_TTL(self) -> timedelta:
        """How long an elicitation can be answered after it was asked."""
        return self._duration("QUESTION_TTL", timedelta(hours=24))

    @property
    def ANSWER_TTL(self) -> timedelta:
        """How long a stored answer can be sent. After that the person is asked again."""
        return self._duration("ANSWER_TTL", FORM_ANSWER_TTL)

    @property
    def RESUME_LEASE(self) -> timedelta:
        """How long a resumed call belongs to the process that resumes it, unless renewed.

        The process renews its lease three times in this time. After the process was killed,
        the call stays untouched for so long.
        """
        return self._duration("RESUME_LEASE", timedelta(seconds=30))

    @property
    def ALIVE(self) -> timedelta:
        """How long an elicitation in the middle of a call stays open without a sign of life.

        The process that waits for the answer gives three of them in this time.
        """
        return self._duration("ALIVE", timedelta(seconds=30))

    @property
    def POLL_INTERVAL(self) -> timedelta:
        """How often a process with waiting calls looks for answers."""
        return self._duration("POLL_INTERVAL", timedelta(seconds=1))

    @property
    def MAX_ROUNDS(self) -> int:
        """How many rounds of one call are put to a person. Later rounds are declined."""
        return self._positive("MAX_ROUNDS", 10, MOST_TIMES)

    @property
    def UNANSWERED(self) -> str:
        """What a server gets where no person said no: ``decline``, or MCP's word ``cancel``."""
        value: str = self._typed("UNANSWERED", "decline", (str,), "'decline' or 'cancel'")
        if value not in ("decline", "cancel"):
            raise ImproperlyConfigured("ELICITATION_UNANSWERED must be 'decline' or 'cancel'.")
        return value

    @property
    def TASKS(self) -> bool:
        """Whether servers may go on with calls as tasks: what the app's connections declare."""
        value: bool = self._typed("TASKS", True, (bool,), "True or False")
        return value

    @property
    def WORKING_TTL(self) -> timedelta:
        """How long a server that asks nothing may be at work before the call is given up."""
        return self._duration("WORKING_TTL", timedelta(hours=24))

    @property
    def MAX_OPEN(self) -> int:
        """How many elicitations of one server may wait for one person at a time."""
        return self._positive("MAX_OPEN", 100)

    @property
    def MAX_OPEN_PER_PERSON(self) -> int:
        """How many elicitations may wait for one person at a time."""
        return self._positive("MAX_OPEN_PER_PERSON", 500)

    @property
    def MAX_CALL_BYTES(self) -> int:
        """How many bytes of JSON the arguments, the requests or the state of a call may have."""
        return self._positive("MAX_CALL_BYTES", 1_048_576)

    @property
    def RESULT_TTL(self) -> timedelta:
        """How long the outcome of a call is kept if its host does not acknowledge it."""
        return self._duration("RESULT_TTL", timedelta(days=7))

    @property
    def MAX_RESULT_BYTES(self) -> int:
        """How many bytes of JSON a result may have. A larger one is not kept with its call."""
        return self._positive("MAX_RESULT_BYTES", 1_048_576)

    @property
    def RADIO_LIMIT(self) -> int:
        """Up to how many options a choice is shown as radio buttons. With more it is a select."""
        return self._positive("RADIO_LIMIT", 7)

    @property
    def PAGE_SIZE(self) -> int:
        """How many elicitations one page of the inbox holds."""
        return self._positive("PAGE_SIZE", 25)

    @property
    def ACCESS(self) -> str:
        """The dotted path of the class that says who may see and answer an elicitation."""
        return self._typed(
            "ACCESS",
            "elicitation.inbox.access.RespondentAccess",
            (str,),
            "the dotted path of a class",
        )

    @property
    def API_MAX_BYTES(self) -> int:
        """How many bytes the body of an HTTP request to the API may have."""
        return self._positive("API_MAX_BYTES", 1_048_576)

    @property
    def FORM_CLASS(self) -> str:
        """The dotted path of the form that shows questions."""
        return self._typed(
            "FORM_CLASS",
            "elicitation.pages.forms.ElicitationForm",
            (str,),
            "the dotted path of a class",
        )

    @property
    def CONTENT_SECURITY_POLICY(self) -> str | None:
        """The Content-Security-Policy of the app's pages; ``None`` leaves it to the site."""
        value: str | None = self._typed(
            "CONTENT_SECURITY_POLICY",
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
            "font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
            "frame-ancestors 'none'",
            (str, type(None)),
            "a string or None",
        )
        if value is not None and not (value.isprintable() and value.isascii()):
            raise ImproperlyConfigured(
                "ELICITATION_CONTENT_SECURITY_POLICY must be one line of ASCII characters: it is "
                "sent as an HTTP header."
            )
        return value

    @property
    def RESUME_AFTER(self) -> timedelta:
        """How long after closing ``elicitation_resume`` sends the signal again.

        The pause doubles each time, up to an hour.
        """
        return self._duration("RESUME_AFTER", timedelta(minutes=1))

    @property
    def RESUME_ATTEMPTS(self) -> int:
        """How often the signal is sent again before the audit says ``never_resumed``.

        With the defaults these are six hours, so that a host that was down for a while still
        resumes its calls.
        """
        return self._positive("RESUME_ATTEMPTS", 10, MOST_TIMES)

    @property
    def ABANDON_AFTER(self) -> timedelta:
        """How long a call stays parked after its last elicitation, if no host resumes it."""
        return self._duration("ABANDON_AFTER", timedelta(days=7))

    @property
    def RETENTION_DAYS(self) -> int | None:
        """For how many days a closed elicitation is kept; ``None``: without end."""
        if getattr(django_settings, "ELICITATION_RETENTION_DAYS", 0) is None:
            return None
        return self._positive("RETENTION_DAYS", 90, LONGEST.days)

    @property
    def METRICS(self) -> bool:
        """Whether the URL ``metrics`` answers, to users who may read the metrics."""
        return self._typed("METRICS", False, (bool,), "True or False")

    @property
    def EMAIL(self) -> bool:
        """Whether the app sends a person an e-mail when a server asks something."""
        return self._typed("EMAIL", False, (bool,), "True or False")

    @property
    def SITE_NAME(self) -> str:
        """What the pages call this site; ``""`` for the host of the request."""
        value = self._typed("SITE_NAME", "", (str,), "a string")
        if not value.isprintable() or len(value) > 64:
            raise ImproperlyConfigured(
                "ELICITATION_SITE_NAME must be one line of at most 64 characters."
            )
        return value

    @property
    def BASE_URL(self) -> str:
        """The part before the path in the links of e-mails: ``https://example.com``."""
        value = self._typed("BASE_URL", "", (str,), "a string")
        is_url = value.startswith(("https://", "http://")) and value[-1] != "/"
        if value and not (is_url and value.isprintable() and " " not in value):
            raise ImproperlyConfigured(
                "ELICITATION_BASE_URL must be like 'https://example.com', without a slash at "
                "its end."
            )
        return value

    @property
    def PAGE_URL(self) -> str:
        """Where people answer, on a site with pages of its own: ``https://example.com/ask/{id}``."""
        value = self._typed("PAGE_URL", "", (str,), "a string")
        leads_somewhere = value.startswith(("https://", "http://", "/")) and value[:2] != "//"
        if value and not (leads_somewhere and re.fullmatch(r"[^{}\s]*\{id\}[^{}\s]*", value)):
            raise ImproperlyConfigured(
                "ELICITATION_PAGE_URL must be like 'https://example.com/ask/{id}', or a path like "
                "'/ask/{id}', with '{id}' where the id of the elicitation belongs."
            )
        return value

    @property
    def SCOPE_URL(self) -> Callable[[str], object] | None:
        """Called with a scope, returns the URL of that conversation, or ``None``."""
        return self._callable("SCOPE_URL")

    @property
    def RESULT_URL(self) -> Callable[[UUID], object] | None:
        """Called with the id of a parked call, returns where its result is, or ``None``."""
        return self._callable("RESULT_URL")

    @property
    def NOTIFY(self) -> Callable[[UUID], object] | None:
        """What is called with the id of an elicitation after it was asked."""
        return self._callable("NOTIFY")

    @property
    def USER_LANGUAGE(self) -> Callable[[Any], object] | None:
        """Called with a user, returns the language of their e-mails. Default: the site's."""
        return self._callable("USER_LANGUAGE")

    def _callable(self, name: str) -> Callable[..., object] | None:
        path: str | None = self._typed(name, None, (str, type(None)), "a dotted path or None")
        return None if path is None else _loaded_callable(name, path)

    def _typed(self, name: str, default: T, types: tuple[type[Any], ...], noun: str) -> T:
        value: T = getattr(django_settings, f"ELICITATION_{name}", default)
        # To Python a bool is an int. A setting for a number does not mean one.
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            raise ImproperlyConfigured(
                f"ELICITATION_{name} must be {noun}, not a {type(value).__name__}."
            )
        return value

    def _duration(self, name: str, default: timedelta) -> timedelta:
        value = self._typed(name, default, (timedelta,), "a datetime.timedelta")
        if value <= timedelta(0):
            raise ImproperlyConfigured(f"ELICITATION_{name} must be greater than zero.")
        if value > LONGEST:
            raise ImproperlyConfigured(f"ELICITATION_{name} must be at most {LONGEST.days} days.")
        return value

    def _positive(self, name: str, default: int, most: int = 2**31 - 1) -> int:
        value = self._typed(name, default, (int,), "a whole number")
        if value < 1:
            raise ImproperlyConfigured(f"ELICITATION_{name} must be at least 1.")
        if value > most:
            raise ImproperlyConfigured(f"ELICITATION_{name} must be at most {most}.")
        return value


def load_class(name: str, path: str, base: type[T]) -> type[T]:
    """Return the class that a setting names.

    Args:
        name: The setting, without its prefix.
        path: Its value, a dotted path.
        base: What the class must be, or be a subclass of.

    Raises:
        ImproperlyConfigured: It is none, or cannot be imported.
    """
    found = _imported(name, path)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise ImproperlyConfigured(
            f"ELICITATION_{name} must be the path of a subclass of "
            f"{base.__module__}.{base.__qualname__}."
        )
    return found


def _loaded_callable(name: str, path: str, of_module: str = "") -> Callable[..., object]:
    """Return what a setting names; of a module, what has the name ``of_module`` there."""
    found = _imported(name, path)
    if isinstance(found, ModuleType) and of_module:
        found = getattr(found, of_module, None)
    if not callable(found):
        raise ImproperlyConfigured(
            f"ELICITATION_{name} must name a function, or something else that can be called."
        )
    return cast("Callable[..., object]", found)


def _imported(name: str, path: str) -> Any:
    try:
        # A module is an attribute of its package only once it was imported.
        with suppress(ModuleNotFoundError):
            return import_module(path)
        return import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(f"ELICITATION_{name} cannot be imported: {error}") from error
    except Exception as error:
        # No path at all (".."), or whatever the module raises when it is imported.
        raise ImproperlyConfigured(
            f"ELICITATION_{name} cannot be imported: {type(error).__name__}"
        ) from error


settings = Settings()

#: The name of every setting, without its prefix: what the checks read.
NAMES = tuple(name for name, value in vars(Settings).items() if isinstance(value, property))
