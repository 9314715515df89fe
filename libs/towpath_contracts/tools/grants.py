"""Grants: what one task may use, and how they narrow on the way from task to child run.

A chain of grants lets through what every one of them lets through, so adding one can only take rights away. A
grant without entries lets nothing through; no grant at all narrows nothing.
"""

from collections.abc import Iterable, Sequence

from towpath_contracts.base import JsonObject
from towpath_contracts.tools.name_globs import name_matches

Grant = tuple[JsonObject, ...]
"""Entries of `tool` and `operation` globs with perhaps a condition `when`; one of them must let a call through."""

Grants = tuple[Grant, ...]
"""A chain, outermost first: every grant must let a call through."""

MAX_CHAIN = 16
"""Grants in one chain: more than the deepest tree of runs has."""

MAX_CHAIN_ENTRIES = 512
"""Entries of all of them together, twice as many as one task may bring: each call carries them all, and each is held
against its tool, before calls of others are decided."""


class GrantChainTooLongError(Exception):
    """A task would stand under more grants, or entries of grants, than are carried."""


def narrow(parent: Sequence[Grant], child: Iterable[JsonObject] | None) -> Grants:
    """Return the chain of a task that has *child* as its own grant, under the chain *parent*; never wider than it.

    A grant that stands in the chain already is not repeated. Raises GrantChainTooLongError above `MAX_CHAIN` and
    `MAX_CHAIN_ENTRIES`.
    """
    chain = tuple(parent)
    own = None if child is None else tuple(child)
    if own is not None and own not in chain:
        chain = (*chain, own)
    if len(chain) > MAX_CHAIN:
        msg = f"a task stands under {len(chain)} grants; at most {MAX_CHAIN} are carried"
        raise GrantChainTooLongError(msg)
    entries = sum(map(len, chain))
    if entries > MAX_CHAIN_ENTRIES:
        msg = f"the grants that a task stands under have {entries} entries together; the limit is {MAX_CHAIN_ENTRIES}"
        raise GrantChainTooLongError(msg)
    return chain


def grant_chain(grants: Iterable[Iterable[JsonObject]], grant: Sequence[JsonObject] | None) -> Grants:
    """Return the chain that a message stands for; older ones know only the task's own *grant*."""
    own = None if grant is None else tuple(grant)
    chain = tuple(tuple(each) for each in grants)
    return chain if own is None or own in chain else (*chain, own)


def covers_operation(entry: JsonObject, tool: str, operation: str) -> bool:
    """Return whether an entry names *operation* of *tool*, whatever its condition says."""
    named = name_matches(str(entry.get("tool", "")), tool)
    return named and name_matches(str(entry.get("operation", "*")), operation)


def chain_covers(grants: Iterable[Sequence[JsonObject]], tool: str, operation: str) -> bool:
    """Return whether every grant of a chain names *operation* of *tool*: by its conditions it may still be refused."""
    return all(any(covers_operation(entry, tool, operation) for entry in grant) for grant in grants)
