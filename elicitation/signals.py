"""The app's signals, and what a receiver can rely on.

Both are sent after the transaction has committed, with ``send_robust``: a receiver that
raises is logged and disturbs neither the person's page nor the other receivers. Both carry
ids and a state, never a question and never an answer.

Keyword arguments of both:

``sender``
    The model class ``elicitation.models.Elicitation``.
``elicitation_id`` : ``uuid.UUID``
    The question set.
``parked_call_id`` : ``uuid.UUID``
    The tool call that waits for it; what ``mcp.client.resume`` takes.
``scope`` : ``str``
    The host's own id of the conversation or run.
``state`` : ``str``
    A value of ``Elicitation.State``: ``pending`` when asked, otherwise how it was closed.

A process that dies between the commit and the signal sends nothing; a host must therefore
not rely on the signal alone (see ``docs/hosts.md``).
"""

from django.dispatch import Signal

#: A question set was put in front of a person.
elicitation_asked = Signal()

#: A question set was answered, declined, withdrawn or has expired. Sent once more, with the state
#: ``answered``, where somebody has finished at an address that they agreed to open.
elicitation_closed = Signal()

#: A call whose server was at work is to be resumed, to see whether it has finished. Keyword
#: arguments: ``sender`` (``ParkedCall``), ``parked_call_id``, and as strings ``scope``, ``call``
#: (the host's own id of the call), ``server`` and ``tool``.
call_due = Signal()
