"""The app's signals, and what a receiver can rely on.

Both are sent after the transaction has committed, with ``send_robust``: a receiver that
raises is logged and disturbs neither the person's page nor the other receivers. Both carry
ids and a state, and nothing of what was asked or answered.

Keyword arguments of both:

``sender``
    The model class ``elicitation.models.Elicitation``.
``elicitation_id`` : ``uuid.UUID``
    The elicitation.
``parked_call_id`` : ``uuid.UUID``
    The tool call that waits for it; what ``elicitation.mcp.client.resume`` takes.
``scope`` : ``str``
    The host's own id of the conversation or run.
``state`` : ``str``
    A value of ``Elicitation.State``: ``pending`` when asked, otherwise how it was closed.

If a process dies between the commit and the signal, it sends nothing. ``elicitation_resume``
sends the signal again (``docs/operations.md``).
"""

from django.dispatch import Signal

#: A person was asked.
elicitation_asked = Signal()

#: An elicitation was answered, declined or withdrawn, or has expired. Sent again, with the state
#: ``answered``, if a person has finished at a URL that they agreed to open.
elicitation_closed = Signal()

#: A call for which no elicitation is left is to be resumed: its server was at work, or its last
#: request was not sent. Keyword arguments: ``sender`` (``ParkedCall``), ``parked_call_id``, and
#: as strings ``scope``, ``call`` (the host's own id of the call), ``server`` and ``tool``.
call_due = Signal()
