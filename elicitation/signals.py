"""The app's signals, and what a receiver can rely on.

Both are sent after the transaction has committed, with ``send_robust``: a receiver that
raises is logged and disturbs neither the person's page nor the other receivers. Both carry
ids and a state, and no text of an elicitation or of an answer.

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

A process that dies between the commit and the signal sends nothing; a host must therefore
not rely on the signal alone (see ``docs/hosts.md``).
"""

from django.dispatch import Signal

#: An elicitation was put in front of a person.
elicitation_asked = Signal()

#: An elicitation was answered, declined, withdrawn or has expired. Sent once more, with the state
#: ``answered``, when a person has finished at a URL that they agreed to open.
elicitation_closed = Signal()
