"""Proofs for a run, a single call or a single entry: the audit entries with their paths to a signed checkpoint.

A proof holds entries of the requesting project only, and does not prove that there are no others. `towpath audit
verify` checks it without any server.
"""

import json
from collections.abc import Sequence
from typing import Any

from towpath_audit.proof import ProvedEntry, serialize_proof
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.audit import AuditProof, ProveRun
from towpath_tas.app.audit.export_piece import entry_of, payload_of, travelling_bytes
from towpath_tas.app.audit.sealer import QUERIES, Sealer, SealRefusedError
from towpath_tas.app.audit.tree_paths import MerklePaths, MissingLeavesError

MAX_ENTRIES = 500
"""Entries of one proof; a longer run needs proofs of single calls, or a bundle."""

MAX_SHOWN_BYTES = 300_000
"""Payloads of one proof, as they travel; of the rest it has the commitments only."""


class AuditProofs:
    """Answers requests for proofs."""

    def __init__(self, pool: Any, sealer: Sealer) -> None:
        self._pool = pool
        self._sealer = sealer

    async def prove(self, request: ProveRun) -> AuditProof:
        """Return the proof; raises ProblemError if there is nothing to prove, too much, or the log is broken."""
        note, size = await self._checkpoint(request.size)
        async with self._pool.acquire() as connection:
            rows = await _entries(connection, request, size)
            _check(rows, request, size)
            paths = MerklePaths(connection)
            try:
                proved = [await _proved(row, paths, size) for row in rows]
            except MissingLeavesError as error:
                raise ProblemError(problem("audit_broken", str(error))) from error
            keys = await self._sealer.known_keys(connection)
        return AuditProof(proof=serialize_proof(note, keys, _within_message(proved)), entries=len(proved), size=size)

    async def _checkpoint(self, size: int | None) -> tuple[str, int]:
        if size is not None:
            note = await self._pool.fetchval(QUERIES.note_of_size, size)
            if note is None:
                raise ProblemError(problem("not_found", f"no checkpoint of {size} leaves is kept"))
            return note, size
        try:
            sealed = await self._sealer.current()
        except SealRefusedError as error:
            raise ProblemError(problem(error.code, str(error))) from error
        return sealed.note, sealed.edge.size


async def _entries(connection: Any, request: ProveRun, size: int) -> Sequence[Any]:
    """Return the rows of what is to be proved, as far as the tree of *size* leaves has them."""
    rows: Sequence[Any]
    if request.entry_id is not None:
        rows = await connection.fetch(QUERIES.entry_to_prove, request.project, request.entry_id, size)
    else:
        selection = (request.project, request.run_id, request.execution_id, size, MAX_ENTRIES + 1)
        rows = await connection.fetch(QUERIES.entries_to_prove, *selection)
    return rows


def _check(rows: Sequence[Any], request: ProveRun, size: int) -> None:
    which = f"run {request.run_id}" if request.execution_id is None else f"call {request.execution_id} of it"
    if request.entry_id is not None:
        which = f"the number {request.entry_id}"
    if not rows:
        raise ProblemError(problem("not_found", f"the log of {size} leaves has no entry of {which}"))
    if len(rows) > MAX_ENTRIES:
        detail = f"{which} has more than {MAX_ENTRIES} entries: name one call, or export a bundle"
        raise ProblemError(problem("request_too_large", detail))


async def _proved(row: Any, paths: MerklePaths, size: int) -> ProvedEntry:
    path = await paths.of(row["leaf_index"], size)
    return ProvedEntry(leaf=row["leaf_index"], entry=entry_of(row), payload=payload_of(row), path=path)


def _within_message(proved: list[ProvedEntry]) -> list[ProvedEntry]:
    """Leave payloads out from where the message is full. Readers can't compare these, so they are compared here."""
    kept, weight = [], 0
    for one in proved:
        weight += 0 if one.payload is None else travelling_bytes(json.dumps(one.payload.as_json()))
        if one.payload is None or weight <= MAX_SHOWN_BYTES:
            kept.append(one)
        else:
            fits = one.payload.commitment() == one.entry.commitment
            kept.append(one._replace(payload=None, left_out="withheld" if fits else "changed"))
    return kept
