"""Ids as people type them: whole, or only as many characters as it takes to tell them apart."""

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath.client.client import Client

RECENT_RUNS = 1_000
"""How many runs a shortened id is looked up among; older ones need the whole id."""

RECENT_ERASURES = 500
"""How many erasures a shortened id is looked up among: a page."""

_PAGE = 200


async def resolve_run_id(client: "Client", given: str) -> UUID:
    """Return the run that *given* means: a whole id, or the beginning or the end of a recent one's."""
    whole = _whole(given)
    if whole is not None:
        return whole
    found: list[UUID] = []
    before = None
    while len(found) < RECENT_RUNS:
        page = await client.runs(limit=_PAGE, before=before)
        found += [run.run_id for run in page.runs]
        before = page.next_before
        if before is None:
            break
    return unique_match(given, found, "run_not_found", "runs", newest=len(found) if before else None)


async def resolve_gate_id(client: "Client", given: str) -> UUID:
    """Return the gate that *given* means, among all gates the platform lists."""
    whole = _whole(given)
    if whole is not None:
        return whole
    gates = await client.gates.list(status="all")
    return unique_match(given, [gate.gate_id for gate in gates], "gate_not_found", "gates")


async def resolve_erasure_id(client: "Client", given: str) -> UUID:
    """Return the erasure that *given* means, among the newest ones."""
    whole = _whole(given)
    if whole is not None:
        return whole
    page = await client.audit.erasures(limit=RECENT_ERASURES)
    found = [one.erasure_id for one in page.erasures]
    return unique_match(given, found, "erasure_not_found", "erasures", newest=len(found) if page.next_before else None)


def unique_match(given: str, ids: Sequence[UUID], code: str, kind: str, *, newest: int | None = None) -> UUID:
    """Return the one id that begins with *given*, or else the one that ends with it; raises ProblemError.

    *kind* is what they are ids of, and *newest* how many of them were looked at where there are older ones.
    """
    short = given.strip().lower().replace("…", "")
    for fits in (str.startswith, str.endswith):
        found = [candidate for candidate in ids if short and fits(str(candidate), short)]
        if len(found) == 1:
            return found[0]
        if found:
            detail = f"{given!r} fits {len(found)} ids, {found[0]} and {found[1]} among them"
            raise ProblemError(problem("id_ambiguous", detail))
    among, whole = f"the {kind}", ""
    if newest is not None:
        among, whole = f"the newest {newest} {kind}", "; the whole id, 36 characters, finds older ones too"
    raise ProblemError(problem(code, f"none of {among} has an id that begins or ends with {given!r}{whole}"))


def _whole(given: str) -> UUID | None:
    try:
        return UUID(given)
    except ValueError:
        return None
