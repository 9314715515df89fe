"""What a page knows of who looks at it: which buttons the API would take from them, and which it would refuse.

Nothing is allowed here. A button that is shown to do something may still be refused by the API, which alone decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIRST_ASKED = "approver"
"""The role that an approval asks for unless it names another."""

GATE_ROLES = ("operator", FIRST_ASKED)
"""The roles that may speak at gates which are no approvals."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who looks at a page, as `GET /v1/me` says; None for what it has not said, and then nothing is held back."""

    name: str = ""
    project: str = ""
    scopes: frozenset[str] | None = None
    roles: frozenset[str] = frozenset()
    gate_roles: frozenset[str] = frozenset()
    has_session: bool = False

    @property
    def is_nobody(self) -> bool:
        """Whether nobody is let in: there is nothing to lead to."""
        return self.scopes is not None and not self.name

    def may(self, scope: str) -> bool:
        """Return whether the caller has *scope*."""
        return self.scopes is None or scope in self.scopes

    def can(self, *roles: str) -> bool:
        """Return whether the caller has one of *roles*."""
        return self.scopes is None or not self.roles.isdisjoint(roles)

    def lacking(self, scope: str, *roles: str) -> str:
        """Return what the caller lacks for what needs *scope* and one of *roles*; empty for nothing."""
        return self._lacking(scope, roles, self.roles)

    def lacking_at(self, gate: Mapping[str, Any]) -> str:
        """Return what the caller lacks for a word at *gate*: an approval asks for its own role."""
        detail = gate.get("detail") or {}
        if gate.get("approval_id"):
            return self._lacking("gates:resolve", (detail.get("role") or FIRST_ASKED,), self.roles)
        return self._lacking("gates:resolve", GATE_ROLES, self.gate_roles)

    def _lacking(self, scope: str, roles: tuple[str, ...], held: frozenset[str]) -> str:
        if self.scopes is None:
            return ""
        lacks = [f"the scope {scope}"] if scope not in self.scopes else []
        if roles and held.isdisjoint(roles):
            lacks.append(f"the role {' or '.join(roles)}")
        return f"Only for somebody with {' and '.join(lacks)}." if lacks else ""


ANYBODY = Caller()
"""Somebody of whom nothing is known."""

NOBODY = Caller(scopes=frozenset())
"""Somebody who is not let in."""


def caller_of(me: Mapping[str, Any]) -> Caller:
    """Return who `GET /v1/me` says looks on."""
    return Caller(
        name=str(me.get("caller", "")),
        project=str(me.get("project", "")),
        scopes=frozenset(me.get("scopes", ())),
        roles=frozenset(me.get("roles", ())),
        gate_roles=frozenset(me.get("gate_roles", ())),
        has_session=me.get("signed_in_by") == "session",
    )
