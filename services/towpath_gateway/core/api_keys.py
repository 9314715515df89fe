"""API keys and what they allow: `twp_<prefix>.<secret>`.

Only the SHA-256 digest of a secret is kept and compared, in constant time. A secret has 256 random bits, so a slow
hash would protect nothing. Whatever is not listed is refused.
"""

import base64
import contextlib
import hashlib
import hmac
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.subjects import LOCAL
from towpath_contracts.tools.reserved_names import is_platform_actor

SCOPES: tuple[str, ...] = (
    "runs:read",
    "runs:write",
    "runs:operate",
    "networks:read",
    "networks:write",
    "gates:read",
    "gates:resolve",
    "audit:read",
    "policy:read",
    "policy:write",
    "keys:admin",
)
"""Everything that a key of a project may be allowed to do."""

OPERATE_PLATFORM = "platform:operate"

PLATFORM_SCOPES: tuple[str, ...] = (OPERATE_PLATFORM,)
"""What concerns all projects. No key gets one unless it is named, and only a key that has it can give it on."""

ERASE_AUDIT = "audit:erase"
"""Asking for erasures of the audit and confirming them. No role has it and no key gets it unless it is named: whoever
changes what the rules are must not be able to erase what was done under them."""

ALL_SCOPES: tuple[str, ...] = (*SCOPES, ERASE_AUDIT, *PLATFORM_SCOPES)

_READ_SCOPES = frozenset({"runs:read", "networks:read", "gates:read", "policy:read"})

ROLE_SCOPES: dict[str, frozenset[str]] = {
    "viewer": _READ_SCOPES,
    "operator": _READ_SCOPES | {"runs:write", "runs:operate", "gates:resolve"},
    "approver": _READ_SCOPES | {"gates:resolve"},
    "policy_admin": _READ_SCOPES | {"policy:write", "gates:resolve"},
    "auditor": _READ_SCOPES | {"audit:read"},
}
"""What a person of each role may do: the scopes of a key that names roles and no scopes.

Three of them may speak at gates; which gates is the role's own matter: approvals are an approver's, escalated ones and
tools a policy admin's.
"""

_DECIDING_ROLES = frozenset({"approver", "policy_admin"})

ROLES: tuple[str, ...] = tuple(ROLE_SCOPES)
"""Roles the platform itself asks for; policies may name others."""

_PREFIX = re.compile(r"[a-z0-9]{12}")
_KEY = re.compile(r"twp_([a-z0-9]{12})\.([A-Za-z0-9_-]{43})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """Who asks: *caller* names the task queue, *actor* is written into records, *project* bounds everything."""

    caller: str
    actor: str
    project: str
    scopes: frozenset[str]
    roles: frozenset[str]
    key_prefix: str | None = None
    key_commitment: str = ""

    def named(self) -> dict[str, str]:
        """Return who asks, with which key, as requests name it whose entry of the audit is held against that key."""
        return {"actor": self.actor, "key_prefix": self.key_prefix or "", "key_commitment": self.key_commitment}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKey:
    """A key as the table holds it; `project` is its caller's."""

    prefix: str
    secret_digest: bytes
    caller: str
    project: str
    scopes: frozenset[str]
    roles: frozenset[str]
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    signed_out_at: datetime | None = None
    ended_sessions: frozenset[int] = frozenset()


LOCAL_PERSON = Principal(
    caller=LOCAL, actor=LOCAL, project="default", scopes=frozenset(ALL_SCOPES), roles=frozenset(ROLES)
)
"""Whoever shows the token of an embedded platform without keys: the person who started it.

Not `anonymous`, which every process of the machine is at the broker: its runs are this person's alone.
"""


def non_approval_roles(principal: Principal) -> frozenset[str]:
    """Return the roles in which *principal* speaks at gates that are no approvals.

    Whoever has every scope of a project, as the first key has, is an operator there whatever roles are named.
    """
    everything = principal.scopes.issuperset(SCOPES)
    return principal.roles | {"operator"} if everything else principal.roles


def scopes_of(scopes: Collection[str], roles: Iterable[str]) -> tuple[str, ...]:
    """Return what a new key may do: the *scopes* that are named, else those of its *roles*."""
    if scopes:
        return tuple(scopes)
    return tuple(sorted(frozenset().union(*(ROLE_SCOPES.get(role, frozenset()) for role in roles))))


def key_warnings(scopes: Collection[str], roles: Collection[str]) -> tuple[str, ...]:
    """Return what is unwise about a key that may do all this; empty for a key of one purpose."""
    may, is_one_of = frozenset(scopes), frozenset(roles)
    found = []
    if {"runs:write", "keys:admin"} <= may:
        found.append("it starts runs and makes keys: give the application runs:write runs:read, a person keys:admin")
    if {"runs:write", "gates:resolve"} <= may and "operator" not in is_one_of:
        found.append("it starts runs and speaks at gates: an application needs no gates:resolve")
    if "keys:admin" in may and is_one_of & _DECIDING_ROLES:
        named = " ".join(sorted(is_one_of & _DECIDING_ROLES))
        found.append(f"it makes keys of its role {named} for others: its holder can count as several people")
    if {ERASE_AUDIT, "keys:admin"} <= may:
        found.append("it makes keys that erase: its holder can confirm as another person what they ask for")
    return tuple(found)


def refuse_platform_actor(caller: str) -> None:
    """Raise ProblemError `actor_reserved` where *caller* reads as one of the platform's own actors.

    Records name who acted by this word alone: a key of the caller `create-key` would pass for the platform itself.
    """
    if is_platform_actor(caller):
        raise ProblemError(problem("actor_reserved", f"{caller} is an actor of the platform, so no key is made for it"))


def refuse_other_person(maker: Principal, caller: str, roles: Collection[str]) -> None:
    """Raise ProblemError `forbidden` where keys of *caller* have had *roles* that *maker* lacks.

    The new key would not have those roles. But its holder would speak in the name of a person whose word counts where
    the maker's doesn't. Keys that have ended count too, so revoking them first opens nothing.
    """
    missing = sorted(set(roles) - maker.roles) if caller != maker.caller else []
    if missing:
        detail = f"keys of {caller} have had the roles {missing}, which you don't hold"
        remedy = "Have it made by who holds them, or with the database at hand: python -m towpath_gateway create-key."
        raise ProblemError(problem("forbidden", detail, remedy=remedy))


def format_key(prefix: str, secret: str) -> str:
    """Return the key as its owner holds it."""
    return f"twp_{prefix}.{secret}"


def secret_digest(secret: str) -> bytes:
    """Return what is stored of a secret."""
    return hashlib.sha256(secret.encode()).digest()


def split_key(text: str) -> tuple[str, str] | None:
    """Return (prefix, secret), or None for text that can't be a key."""
    found = _KEY.fullmatch(text)
    return (found.group(1), found.group(2)) if found else None


def is_key_prefix(text: str) -> bool:
    """Return whether *text* can be the prefix of a key."""
    return _PREFIX.fullmatch(text) is not None


def bearer(header: str | None) -> str | None:
    """Return the credential of an `Authorization` header; None without one, empty for an unknown scheme.

    It is a bearer token, or the password of `Basic`, which clients make of `http://NAME:TOKEN@HOST`.
    """
    if header is None:
        return None
    scheme, _, credential = header.partition(" ")
    if scheme.lower() == "basic":
        with contextlib.suppress(ValueError):
            return base64.b64decode(credential.strip(), validate=True).decode("ascii").partition(":")[2]
    return credential.strip() if scheme.lower() == "bearer" else ""


def key_commitment(prefix: str, digest: bytes) -> str:
    """Return what records say of the secret that was checked; the trigger gateway.audit_key computes the same.

    A secret that was swapped in the table for a moment has another one, and this one tells nothing of it.
    """
    return hashlib.sha256(prefix.encode() + digest).hexdigest()


def key_refusal(stored: StoredKey | None, secret: str, now: datetime) -> str | None:
    """Return why *secret* is not a valid key at *now*, or None when it is.

    The digests are compared in constant time, also when there is no such key.
    """
    expected = stored.secret_digest if stored is not None else bytes(32)
    same = hmac.compare_digest(expected, secret_digest(secret))
    if stored is None or not same:
        return "the key is not known"
    if stored.revoked_at is not None:
        return "the key was revoked"
    if stored.expires_at is not None and stored.expires_at <= now:
        return "the key has expired"
    return None


def principal_of(stored: StoredKey) -> Principal:
    """Return who holds a valid key."""
    return Principal(
        caller=stored.caller,
        actor=stored.caller,
        project=stored.project,
        scopes=stored.scopes,
        roles=stored.roles,
        key_prefix=stored.prefix,
        key_commitment=key_commitment(stored.prefix, stored.secret_digest),
    )
