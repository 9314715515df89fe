"""Handing a gate to somebody: whose it is to decide next, which gives nobody a right.

There is no directory of people here: a name is what a key's caller, or a person who signs in, is called. So a gate
that was handed over can still be decided by everybody who could before, and by the named one only with the role that it
asks for.
"""

from typing import Annotated
from uuid import UUID

from pydantic import Field, StringConstraints

from towpath_contracts.base import Message
from towpath_contracts.runs.views import GateView

ROLE_PREFIX = "role:"
"""Begins a name that means everybody with a role: `role:approver`."""

APPROVER = "approver"
RESOLVER_ROLES = frozenset({"operator", APPROVER})
"""Roles of people who may settle a gate that is not an approval; approvals name their own role."""

DelegateName = Annotated[
    str,
    StringConstraints(
        pattern=r"^[^\s\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+$", max_length=254
    ),
]
"""A person's name, or `role:NAME`."""


class DelegateGate(Message):
    """Say whose a gate is to decide. `known_roles` are those of the person's keys; None where no key is known."""

    project: str
    gate_id: UUID
    to: DelegateName
    known_roles: tuple[str, ...] | None = None
    reason: str = Field(default="", max_length=2_000)
    actor: str
    caller: str = ""
    key_prefix: str = ""
    key_commitment: str = ""
    roles: tuple[str, ...] = ()


def roles_that_decide(gate: GateView) -> frozenset[str]:
    """Return the roles of which somebody needs one to decide at *gate*."""
    if gate.approval_id is None:
        return RESOLVER_ROLES
    return frozenset({str(gate.detail.get("role") or APPROVER)})
