"""An elicitation in front of a person: asked, read, answered, declined, withdrawn, expired.

Every face (page, API, admin, commands, the SDK integration) calls these functions and writes no
row itself. The first to close an elicitation wins, whoever it is: closing is one conditional
``UPDATE`` that counts one.

An answered elicitation leaves an answer in ``store``. So does one that was declined, withdrawn
or has expired: on the wire all three are ``decline`` (the person accepted nothing), and the call
that is resumed finds one thing in one place. In our own rows they are different states.
"""

from ..core import AnswerRefusals
from .asking import (
    ElicitationRequest,
    ask,
    ask_all,
    ask_in_call,
    consented,
    keep_alive,
    recorded,
    withdraw_all,
)
from .closing import (
    aanswer,
    adecline,
    aexpire_now,
    answer,
    awithdraw,
    decline,
    expire,
    expire_now,
    withdraw,
)
from .errors import ElicitationClosedError, ElicitationReplacedError, WrongModeError
from .links import result_url, scope_url
from .moving import extend, hand_over
from .reading import (
    closed_among,
    follow_up,
    get,
    history,
    recent,
    servers,
    shown,
    visible,
    waiting,
    waiting_ids,
)
from .retention import (
    delete_old,
    expire_due,
    forget_urls,
)
from .rows import (
    CANCELLED,
    FINISHED,
    PERSON_GONE,
    PROCESS_GONE,
    REPLACED,
    RESTORED,
    SWITCHED_OFF,
    withdraw_orphans,
)
from .url_mode import (
    acomplete,
    aconsent,
    acontinued,
    ago_on,
    complete,
    consent,
    consent_lasts,
    continued,
    go_on,
    waits_for_completion,
)

__all__ = [
    "CANCELLED",
    "FINISHED",
    "PERSON_GONE",
    "PROCESS_GONE",
    "REPLACED",
    "RESTORED",
    "SWITCHED_OFF",
    "AnswerRefusals",
    "ElicitationClosedError",
    "ElicitationReplacedError",
    "ElicitationRequest",
    "WrongModeError",
    "aanswer",
    "acomplete",
    "aconsent",
    "acontinued",
    "adecline",
    "aexpire_now",
    "ago_on",
    "answer",
    "ask",
    "ask_all",
    "ask_in_call",
    "awithdraw",
    "closed_among",
    "complete",
    "consent",
    "consent_lasts",
    "consented",
    "continued",
    "decline",
    "delete_old",
    "expire",
    "expire_due",
    "expire_now",
    "extend",
    "follow_up",
    "forget_urls",
    "get",
    "go_on",
    "hand_over",
    "history",
    "keep_alive",
    "recent",
    "recorded",
    "result_url",
    "scope_url",
    "servers",
    "shown",
    "visible",
    "waiting",
    "waiting_ids",
    "waits_for_completion",
    "withdraw",
    "withdraw_all",
    "withdraw_orphans",
]
