"""The app's signals, and what a receiver can rely on.

All are sent after the transaction has committed, with ``send_robust``: a receiver that raises is
logged and disturbs neither the person's page nor the other receivers. They carry ids, names and a
state or code, and nothing of what was asked, answered or returned.

Keyword arguments of all:

``sender``
    The model class: ``Elicitation`` for the first two, ``ParkedCall`` for the others.
``parked_call_id`` : ``uuid.UUID``
    The tool call: what ``elicitation.mcp.client.resume`` takes.
``scope``, ``call`` : ``str``
    The host's own ids of the conversation or run, and of the call in it.
``server``, ``tool`` : ``str``
    What was called, by the names under which the host called it.

If a process dies between the commit and the signal, it sends nothing. ``elicitation_resume``
sends the signal again (``docs/operations.md``).
"""

from django.dispatch import Signal

#: A person was asked. Also: ``elicitation_id`` (``uuid.UUID``), and ``state``: ``pending``.
elicitation_asked = Signal()

#: An elicitation was answered, declined or withdrawn, or has expired. Also: ``elicitation_id``,
#: and ``state``, a value of ``Elicitation.State``. Sent again, with the state ``answered``, if a
#: person has finished at a URL that they agreed to open.
elicitation_closed = Signal()

#: A call for which no elicitation is left is to be resumed: its server was at work, or its last
#: request was not sent.
call_due = Signal()

#: A parked call has ended. Its outcome is stored, and this is sent again until
#: ``elicitation.calls.acknowledge`` deletes it. Also: ``code``, a value of ``ParkedCall.Outcome``.
call_finished = Signal()
