"""Who may see and answer an elicitation, decided in one place.

Inbox, pages, API and notifications all ask the one object that ``ELICITATION_ACCESS`` names.
Seeing and answering are one right: a person who may not answer an elicitation cannot see it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import IntegerField, Q, QuerySet, Value

from ..conf import load_class, settings
from ..models import Elicitation, ElicitationQuerySet

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser, PermissionsMixin


class RespondentAccess:
    """The person who was asked, and nobody else: the default, and the base of other rules.

    A subclass that lets more people answer overrides ``visible``. It overrides ``people`` too,
    if they are to be notified. One instance serves the whole process and must keep no state.
    """

    def visible(
        self, elicitations: ElicitationQuerySet, user: AbstractBaseUser
    ) -> ElicitationQuerySet:
        """Return those of ``elicitations`` that this person may see and answer.

        It must answer with a filter, so that lists stay one query. ``user`` is signed in.
        """
        return elicitations.for_respondent(user)

    def people(self, elicitation: Elicitation) -> QuerySet[Any]:
        """Return the users who are notified of this elicitation."""
        return _users().filter(pk=elicitation.respondent_id)


class GroupAccess(RespondentAccess):
    """The respondent, and everybody who is in a group with them; all of them are notified.

    The user model needs Django's ``PermissionsMixin``.
    """

    def visible(
        self, elicitations: ElicitationQuerySet, user: AbstractBaseUser
    ) -> ElicitationQuerySet:
        """Return the elicitations of this person and of the members of their groups."""
        groups = cast("PermissionsMixin", user).groups.all()
        members = _users().filter(groups__in=groups).values("pk")
        return elicitations.filter(Q(respondent=user.pk) | Q(respondent__in=members))

    def people(self, elicitation: Elicitation) -> QuerySet[Any]:
        """Return the respondent and the members of their groups."""
        groups = _users().filter(pk=elicitation.respondent_id).values("groups")
        return _users().filter(Q(pk=elicitation.respondent_id) | Q(groups__in=groups)).distinct()


class PermissionAccess(RespondentAccess):
    """The respondent, and holders of the permission ``elicitation.answer_any``.

    Holders of the permission are not notified.
    """

    def visible(
        self, elicitations: ElicitationQuerySet, user: AbstractBaseUser
    ) -> ElicitationQuerySet:
        """Return every elicitation to a holder of the permission, and to others their own."""
        if cast("PermissionsMixin", user).has_perm("elicitation.answer_any"):
            return elicitations
        return super().visible(elicitations, user)


def access() -> RespondentAccess:
    """Return the object that decides: an instance of ``ELICITATION_ACCESS``.

    Raises:
        ImproperlyConfigured: The setting is not the path of a ``RespondentAccess`` class.
    """
    return _instance(settings.ACCESS)


def visible(
    elicitations: ElicitationQuerySet, user: AbstractBaseUser | AnonymousUser
) -> ElicitationQuerySet:
    """Return those of ``elicitations`` that ``user`` may see and answer.

    A user without a key sees nothing: ``respondent=None`` would find the elicitations of people
    whose accounts were deleted.
    """
    if not user.is_authenticated or user.pk is None:
        return elicitations.none()
    return access().visible(elicitations, user)


#: How many people one query of ``audience`` is about: SQLite joins at most 500 in one.
_AT_ONCE = 50


def audience(
    elicitations: ElicitationQuerySet, users: Iterable[AbstractBaseUser]
) -> list[tuple[Any, UUID, str]]:
    """Return which of these people may see which of ``elicitations``.

    One query, and another for each fifty people who come into question: by the default rule
    those who were asked, by a rule of the site's own all of ``users``.

    Returns:
        For each pair the key of the person, and the id and the state of the elicitation.
    """
    people = list(users)
    if type(access()).visible is RespondentAccess.visible:
        asked = set(elicitations.order_by().values_list("respondent", flat=True))
        people = [user for user in people if user.pk in asked]
    found: list[tuple[Any, UUID, str]] = []
    for start in range(0, len(people), _AT_ONCE):
        first, *others = (
            visible(elicitations, user)
            .order_by()
            .annotate(person=Value(number, IntegerField()))
            .values_list("person", "pk", "state")
            for number, user in enumerate(people[start : start + _AT_ONCE], start)
        )
        # In no order, which Django 6.1 does not take from the first of them.
        rows = first.union(*others, all=True).order_by()
        found += ((people[number].pk, key, state) for number, key, state in rows)
    return found


@lru_cache
def _instance(path: str) -> RespondentAccess:
    return load_class("ACCESS", path, RespondentAccess)()


def _users() -> QuerySet[Any]:
    return get_user_model()._default_manager.all()
