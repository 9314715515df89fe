"""The table of API keys: finding, making, listing and revoking them.

Roles are those of a key, not of its caller. Making and revoking one are audited by the table itself. A secret leaves
this module once, in the answer to its making. Postgres away means nobody is let in: that is an `unavailable`, never a
"yes". Everybody's keys are looked up here: who lists or makes many does so on one connection, in turns of projects.
"""

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

import asyncpg
from pydantic import Field

from towpath_contracts.base import ClientMessage, Message, Token
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_fabric.clock import monotonic
from towpath_fabric.postgres.database_probe import database_silent
from towpath_fabric.postgres.pool import DATABASE_DOWN, Queries
from towpath_fabric.turns.work_turns import WorkTurns
from towpath_gateway.core.api_keys import (
    ALL_SCOPES,
    ROLES,
    Principal,
    StoredKey,
    format_key,
    is_key_prefix,
    key_refusal,
    key_warnings,
    principal_of,
    refuse_other_person,
    refuse_platform_actor,
    scopes_of,
    secret_digest,
)

CACHE_S = 2.0
"""How long a found key is believed: a revoked key works at most this long, and a busy client costs one look in 2 s."""

ANSWER_S = 4.0
"""How long a request waits for the database before it is told so: less than clients wait for an answer."""

CACHE_KEYS = 1_024

MAX_ENDED_SESSIONS = 100
"""Of one key, within the life of a session: each request with the key reads them."""

MOST_DROPPED = 20
"""Keys of past sign-ins that go with each key that is made: more than one, so that their number falls."""

TURN_WAIT_S = 10.0
"""How long who lists or makes keys waits for a turn."""

_PREFIX_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_PREFIX_LENGTH = 12
_SECRET_BYTES = 32

_NEVER = datetime.min.replace(tzinfo=UTC)

_queries = Queries.load("towpath_gateway.adapters")

T = TypeVar("T")


class CreateKeyBody(ClientMessage):
    """What a new key may do, for whom and for how long; `expires_in_s` None means until it is revoked.

    Without `scopes` it has those of its `roles`.
    """

    caller: Token
    scopes: tuple[str, ...] = Field(default=(), max_length=len(ALL_SCOPES))
    roles: tuple[Token, ...] = Field(default=(), max_length=16)
    expires_in_s: int | None = Field(default=None, ge=1, le=10 * 365 * 86_400)
    note: str = Field(default="", max_length=256)


class KeyView(Message):
    """A key without its secret; `key` is filled in once, in the answer to its making.

    `created_with` is the prefix of the key that it was made with; empty for the command `create-key`. `warnings` are
    said once too.
    """

    prefix: str
    caller: str
    project: str
    scopes: tuple[str, ...]
    roles: tuple[str, ...] = ()
    note: str = ""
    created_by: str = ""
    created_with: str = ""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    key: str | None = None
    warnings: tuple[str, ...] = ()


class KeyList(Message):
    """A page of the keys of a project, oldest first; `next_after` is what to ask for the next one with."""

    keys: tuple[KeyView, ...]
    next_after: str | None = None


class KeyStore:
    """Keys in Postgres. *pool* is asked for at each use, since it is opened after this object is made.

    Without a database there are no keys, and every use is refused.
    """

    def __init__(self, pool: "Callable[[], asyncpg.Pool[Any] | None]") -> None:
        self._maybe_pool = pool
        self._cache: OrderedDict[str, tuple[float, StoredKey, datetime]] = OrderedDict()
        self._turns = WorkTurns(1, lambda _: 1, TURN_WAIT_S, "project_share_full")

    async def principal(self, prefix: str, secret: str) -> Principal:
        """Return who holds this key; raises ProblemError `unauthenticated` with the reason."""
        found = await self._find(prefix)
        stored, now = found if found is not None else (None, _NEVER)
        why = key_refusal(stored, secret, now)
        if stored is None or why is not None:
            raise ProblemError(problem("unauthenticated", why or "the key is not known"))
        return principal_of(stored)

    async def project_of(self, caller: str) -> str | None:
        """Return the project that *caller* belongs to; None for one whom no key names."""
        return cast("str | None", await _query(lambda: self._pool().fetchval(_queries.project_of, caller)))

    async def stored(self, prefix: str, *, anew: bool = False) -> tuple[StoredKey, datetime] | None:
        """Return a key as the table holds it, and the time there; *anew* looks even where it did so just now."""
        if anew:
            self._cache.pop(prefix, None)
        return await self._find(prefix)

    async def end_session(self, prefix: str, issued_us: int, oldest_us: int) -> None:
        """End the session that was begun then with a key, at once here and within CACHE_S elsewhere.

        What began before *oldest_us* has ended by itself. Of a key that many sessions were ended of, all end.
        """
        ended = (_queries.end_session, prefix, issued_us, oldest_us, MAX_ENDED_SESSIONS)
        await _query(lambda: self._pool().execute(*ended))
        self._cache.pop(prefix, None)

    def has_seen(self, prefix: str) -> bool:
        """Whether there was such a key when it was last looked for."""
        return prefix in self._cache

    async def create(
        self, new: CreateKeyBody, *, project: str, maker: Principal | None, by: str = "create-key"
    ) -> KeyView:
        """Store a new key of *project* and return it with its secret; *maker* None is the platform, as its actor *by*.

        Raises ProblemError `actor_reserved` for a caller that reads as the platform, `caller_taken` where the caller
        belongs to another project, `forbidden` where keys of the caller have had roles that *maker* lacks,
        `request_invalid` for a scope that does not exist, and where neither scopes nor a known role is named.
        """
        refuse_platform_actor(new.caller)
        new = new.model_copy(update={"scopes": scopes_of(new.scopes, new.roles)})
        unknown = sorted(set(new.scopes) - set(ALL_SCOPES))
        if unknown:
            raise ProblemError(problem("request_invalid", f"unknown scopes {unknown}; known are {list(ALL_SCOPES)}"))
        if not new.scopes:
            raise ProblemError(problem("request_invalid", f"name scopes, or one of the roles {', '.join(ROLES)}"))
        prefix = "".join(secrets.choice(_PREFIX_ALPHABET) for _ in range(_PREFIX_LENGTH))
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        async with self._turns.held(project):
            row = await _query(lambda: self._insert(new, project, maker, by, prefix, secret))
        return KeyView(
            prefix=prefix,
            caller=new.caller,
            project=project,
            scopes=new.scopes,
            roles=tuple(sorted(set(new.roles))),
            note=new.note,
            created_by=_actor(maker, by),
            created_with=_prefix(maker),
            created_at=row["created_at"],
            expires_at=row["expires_at"],
            key=format_key(prefix, secret),
            warnings=key_warnings(new.scopes, new.roles),
        )

    async def page_of(self, project: str, after: str | None, limit: int) -> KeyList:
        """Return keys of *project*, those that were made later than *after*; none where that is no key."""
        if after is not None and not is_key_prefix(after):
            return KeyList(keys=())
        async with self._turns.held(project):
            rows = await _query(lambda: self._pool().fetch(_queries.list_keys, project, after, limit + 1))
        keys = tuple(KeyView.model_validate(dict(row)) for row in rows[:limit])
        return KeyList(keys=keys, next_after=keys[-1].prefix if len(rows) > limit else None)

    async def roles_of(self, caller: str, project: str) -> frozenset[str] | None:
        """Return the roles of a caller's keys that hold; None where there are none, as of who signs in elsewhere."""
        if self._maybe_pool() is None:
            return None
        rows = await _query(lambda: self._pool().fetch(_queries.roles_held, caller, project))
        return frozenset(role for row in rows for role in row["roles"]) if rows else None

    async def is_known(self, caller: str, project: str) -> bool:
        """Return whether *caller* has ever had a key of *project*, as also who signs in elsewhere has."""
        if self._maybe_pool() is None:
            return False
        return bool(await _query(lambda: self._pool().fetchval(_queries.project_of, caller)) == project)

    async def revoke(self, prefix: str, *, project: str, by: Principal) -> None:
        """End a key of *project*, at once here and within CACHE_S elsewhere; raises ProblemError `key_not_found`."""
        found = None
        if is_key_prefix(prefix):
            revoke = (_queries.revoke_key, prefix, project, by.actor, _prefix(by))
            found = await _query(lambda: self._pool().fetchval(*revoke))
        self._cache.pop(prefix, None)
        if found is None:
            raise ProblemError(problem("key_not_found", f"{prefix} is no key of this project"))

    def _pool(self) -> "asyncpg.Pool[Any]":
        pool = self._maybe_pool()
        if pool is None:
            raise ProblemError(problem("unavailable", "this gateway has no database, so it has no keys"))
        return pool

    async def _find(self, prefix: str) -> tuple[StoredKey, datetime] | None:
        cached = self._cache.get(prefix)
        if cached is not None and monotonic() - cached[0] < CACHE_S:
            return cached[1], cached[2]
        row = await _query(lambda: self._pool().fetchrow(_queries.find_key, prefix))
        if row is None:
            return None
        stored = StoredKey(
            prefix=prefix,  # the one that was shown: records name it, and a table may answer with another, or none
            secret_digest=row["secret_digest"],
            caller=row["caller"],
            project=row["project"],
            scopes=frozenset(row["scopes"]),
            roles=frozenset(row["roles"]),
            expires_at=row["expires_at"],
            revoked_at=row["revoked_at"],
            signed_out_at=row["signed_out_at"],
            ended_sessions=frozenset(row["ended_sessions"]),
        )
        self._cache[prefix] = (monotonic(), stored, row["now"])
        self._cache.move_to_end(prefix)
        while len(self._cache) > CACHE_KEYS:
            self._cache.popitem(last=False)
        return stored, row["now"]

    async def _insert(
        self, new: CreateKeyBody, project: str, maker: Principal | None, by: str, prefix: str, secret: str
    ) -> asyncpg.Record:
        await self._pool().execute(_queries.drop_past_sign_ins, MOST_DROPPED)
        async with self._pool().acquire() as connection, connection.transaction():
            await connection.execute(_queries.claim_caller, new.caller, project)
            owner = await connection.fetchval(_queries.project_of, new.caller)
            if owner != project:
                raise ProblemError(problem("caller_taken", f"{new.caller} is a caller of another project"))
            if maker is not None:
                # A look without a lock: a key that another transaction makes meanwhile keeps its roles to itself.
                held = await connection.fetch(_queries.roles_ever_held, new.caller)
                refuse_other_person(maker, new.caller, frozenset(row[0] for row in held))
            return await connection.fetchrow(
                _queries.insert_key,
                prefix,
                secret_digest(secret),
                new.caller,
                sorted(set(new.scopes)),
                sorted(set(new.roles)),
                new.note,
                _actor(maker, by),
                _prefix(maker),
                new.expires_in_s,
            )


def _actor(maker: Principal | None, by: str) -> str:
    return by if maker is None else maker.actor


def _prefix(maker: Principal | None) -> str:
    return (maker.key_prefix if maker is not None else None) or ""


async def _query(ask: Callable[[], Awaitable[T]]) -> T:
    try:
        async with asyncio.timeout(ANSWER_S):
            return await ask()
    except TimeoutError as error:
        raise ProblemError(database_silent("gateway")) from error
    except DATABASE_DOWN as error:
        raise ProblemError(problem("unavailable", "the database can't be reached", retry_after_s=2)) from error
