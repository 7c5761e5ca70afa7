"""A process of its own in which a person answers questions, as the site's process does."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Self
from uuid import UUID

from tests import processes

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class Answering:
    """The process: it has answered where ``answer`` returns."""

    def __init__(self, user: User) -> None:
        self.process = processes.start("tests.integration.answering", str(user.pk))
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def answer(self, elicitation_id: UUID) -> None:
        print(elicitation_id, file=self.stdin, flush=True)
        assert self.stdout.readline() == f"{elicitation_id} answered\n"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.process.communicate(timeout=processes.WAIT_SECONDS)
        finally:
            self.process.kill()


def main() -> None:
    processes.use_test_database()
    from django.contrib.auth.models import User

    from elicitation import inbox

    by = User.objects.get(pk=sys.argv[1])
    for line in sys.stdin:
        question = inbox.get(by, line.strip())
        answers = question.schema.answers_from_content({"plan": "team"})
        closed = inbox.answer(question.pk, answers, by=by)
        print(closed.pk, closed.state, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
