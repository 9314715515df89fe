"""The audit log in a real database, without a service around it: entries in, seals and bundles out, forged bundles.

A forger here holds the sealing key, which is the worst case: only what was kept outside can find him out.
"""

import contextlib
import copy
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4, uuid5

import asyncpg
import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from prometheus_client import CollectorRegistry

from towpath_audit import bundle
from towpath_audit.entries import AuditLogEntry, ErasablePayload, HiddenEntry
from towpath_audit.merkle import MerkleFrontier
from towpath_audit.notes import Checkpoint, Signer, open_note
from towpath_contracts.canonical import digest, digest_text
from towpath_contracts.tools.audit import ExportAudit
from towpath_contracts.tools.erasures import DecideErasure, RequestErasure
from towpath_fabric.ids import new_run_id
from towpath_fabric.postgres.pool import open_pool
from towpath_tas.adapters.ledger_tables import QUERIES, platform_audit_row
from towpath_tas.app.audit.audit_export import AuditLogRequests
from towpath_tas.app.audit.erasures import Erasures
from towpath_tas.app.audit.sealer import CheckpointPublisher, Sealer
from towpath_tas.core.erasure_rules import ErasureRules
from towpath_tas.metrics import TasMetrics

ORIGIN = "towpath.test/audit"
PROJECT = "default"
CALLER = "cäller"
ARGS = "{}"
RESULT_DIGEST = "sha256:ab"
POLICY = "kind: Policy"
NO_RULES = digest([])
Line = dict[str, Any]


def signer() -> Signer:
    """A signer with a fresh key."""
    return Signer(ORIGIN, Ed25519PrivateKey.generate())


@dataclass
class Kept:
    """An outlet that remembers: what somebody outside has."""

    notes: list[str] = field(default_factory=list)

    async def publish(self, note: str) -> None:
        """Keep *note*."""
        self.notes.append(note)


@dataclass
class AuditLog:
    """The log of one database, as the service's role sees it; `dsn` is the database as its owner."""

    pool: "asyncpg.Pool[Any]"
    dsn: str
    notes: Signer = field(default_factory=signer)
    kept: Kept = field(default_factory=Kept)

    def __post_init__(self) -> None:
        self.sealer = self.another_sealer()
        self.exports = AuditLogRequests(self.pool, self.sealer)
        self.erasures = Erasures(self.pool, ErasureRules(delay=timedelta(hours=72)), structlog.get_logger())

    def another_sealer(self, *, outlets: Sequence[CheckpointPublisher] = (), **settings: Any) -> Sealer:
        """What another replica would have; unless said otherwise it hands its checkpoints to `kept`."""
        log = structlog.get_logger()
        return Sealer(self.pool, self.notes, outlets or [self.kept], TasMetrics(CollectorRegistry()), log, **settings)

    def another_exports(self) -> AuditLogRequests:
        """What answers at another replica."""
        return AuditLogRequests(self.pool, self.another_sealer())

    async def erase(self, *, project: str = PROJECT, reason: str = "request 4711", **which: Any) -> int:
        """Have dana ask for an erasure and eve confirm it; return how many payloads are gone."""
        asked = await self.erasures.request(RequestErasure(project=project, actor="dana", reason=reason, **which))
        word = DecideErasure(project=project, erasure_id=asked.erasure_id, verdict="confirm", actor="eve")
        done = await self.erasures.decide(word)
        assert done.status == "done"
        return done.erased

    async def write(self, *rows: tuple[Any, ...]) -> None:
        """Write entries as the service does, and the ledger's rows of the calls that they decide."""
        await self.pool.execute(QUERIES.add_audit, list(rows))
        await add_ledger_rows(self.pool, rows)

    async def export(self, project: str = PROJECT, **asked: Any) -> list[str]:
        """Return a whole bundle."""
        lines: list[str] = []
        request = ExportAudit(project=project, actor="ann", **asked)
        while True:
            piece = await self.exports.export(request)
            lines += piece.lines
            if piece.cursor is None:
                return lines
            request = request.model_copy(update={"cursor": piece.cursor, "previous": bundle.digest(piece.lines[-1])})

    async def age(self, days: int, *, size: int = 2**62) -> dict[str, str]:
        """Let what is stored so far, or the first *size* leaves, be *days* older, as if it had been sealed then.

        Return what each checkpoint is now.
        """
        await self.owner(
            "UPDATE tas.audit_record r SET at = at - make_interval(days => $1)"
            " FROM tas.audit_leaf l WHERE l.entry_id = r.entry_id AND l.leaf_index < $2",
            *(days, size),
        )
        await self.owner("UPDATE tas.tool_call SET created_at = created_at - make_interval(days => $1)", days)
        leaves = await self.owner(
            "UPDATE tas.audit_leaf l SET hash = tas.audit_leaf_hash(tas.audit_fields_digest(r), r.project)"
            " FROM tas.audit_record r WHERE r.entry_id = l.entry_id RETURNING l.leaf_index, l.hash"
        )
        hashes = [row["hash"] for row in sorted(leaves, key=lambda row: row["leaf_index"])]
        edge, again = MerkleFrontier(), dict[str, str]()
        for seal in await self.owner("SELECT seal_id, size, at, note FROM tas.audit_seal ORDER BY seal_id"):
            edge = edge.extended(hashes[edge.size : seal["size"]])
            at = seal["at"] - timedelta(days=days if seal["size"] <= size else 0)
            note = again[seal["note"]] = self.notes.note(Checkpoint(ORIGIN, edge.size, edge.root, at).text())
            await self.owner(
                "UPDATE tas.audit_seal SET at = $2, root = $3, edge = $4, note = $5 WHERE seal_id = $1",
                *(seal["seal_id"], at, edge.root, edge.packed(), note),
            )
        self.kept.notes[:] = [again.get(note, note) for note in self.kept.notes]
        self.sealer._seen = None
        return again

    async def owner(self, statement: str, *values: Any) -> list[Any]:
        """Do something as the owner of the database: a person at psql."""
        connection = await asyncpg.connect(self.dsn)
        try:
            return list(await connection.fetch(statement, *values))
        finally:
            await connection.close()


@contextlib.asynccontextmanager
async def audit_log(dsn: str, login: str) -> AsyncIterator[AuditLog]:
    """Open the log of the database *dsn*, as *login* of the service's role."""
    pool = await open_pool(login, 4, "test")
    try:
        yield AuditLog(pool, dsn)
    finally:
        await pool.close()


def call_entries(run_id: UUID, number: int, *, project: str = PROJECT, version: int = 1) -> list[tuple[Any, ...]]:
    """The entries of one call that was allowed, claimed and done."""
    execution_id = uuid5(run_id, f"call:{number}:0")
    said = (
        ("decision", "allow", "", {}),
        ("claim", "granted", "worker-1", {"claim_id": str(uuid4()), "attempt": 1}),
        ("outcome", "succeeded", "worker-1", {"attempt": 1, "duration_ms": number, "result_digest": RESULT_DIGEST}),
    )
    return [
        (
            *(
                False,
                project,
                run_id,
                execution_id,
                phase,
                verdict,
                "orders.tag",
                "write",
                "support",
                "billing",
                CALLER,
            ),
            *(actor, "a rule", version, digest_text(ARGS), json.dumps(detail)),
        )
        for phase, verdict, actor, detail in said
    ]


async def add_ledger_rows(connection: Any, rows: Iterable[tuple[Any, ...]]) -> None:
    """Store the calls that the entries *rows* decide, as they are once they are done."""
    for row in rows:
        (
            _,
            project,
            run_id,
            execution_id,
            phase,
            _,
            tool,
            operation,
            network,
            agent_key,
            caller,
            _,
            rule,
            version,
            *_,
        ) = row
        if phase != "decision" or execution_id is None:
            continue
        fact = json.dumps({"blob": True, "result_digest": RESULT_DIGEST})
        await connection.execute(
            "INSERT INTO tas.tool_call (run_id, execution_id, project, network, snapshot_digest, agent_key, agent_type,"
            " caller, step, call_index, tool, operation, toolset, tool_version, effect_class, timeout_ms, args,"
            " args_digest, context, status, fence, attempt, deadline, policy_version, rule, approvals, claims, fact,"
            " accepted, settled_by, revision) VALUES ($1, $2, $3, $4, '', $5, '', $6, 1, 0, $7, $8, '', 1, '', 1, $9,"
            " $10, '', 'succeeded', 0, 1, now(), $11, $12, 0, '[]', $13, '', '', 1) ON CONFLICT DO NOTHING",
            *(run_id, execution_id, project, network, agent_key, caller, tool, operation, ARGS, digest_text(ARGS)),
            *(version, rule, fact),
        )


def always(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The same entries, standing by themselves."""
    return [(True, *row[1:]) for row in rows]


async def fill(log: AuditLog, calls: int, *, run_calls: int = 50, seal_every: int = 10) -> None:
    """Write *calls* calls with their policy and the log of their runs; seal now and then, and keep some checkpoints."""
    await log.owner(
        "INSERT INTO tas.policy_version (project, version, digest, text, rules, source, note, applied_by, rules_digest)"
        " VALUES ($1, 1, $2, $3, 0, '', '', 'ann', $4) ON CONFLICT DO NOTHING",
        *(PROJECT, digest_text(POLICY), POLICY, NO_RULES),
    )
    await log.write(
        platform_audit_row(PROJECT, "policy.applied", "applied", actor="ann", version=1, detail={"rules": 0})
    )
    run_id = new_run_id()
    for number in range(0, calls, seal_every):
        if number % run_calls == 0:
            run_id = new_run_id()
            await asked_by_a_run(log, run_id, run_calls)
        some = range(number % run_calls, number % run_calls + min(seal_every, calls - number))
        await log.write(*(row for n in some for row in always(call_entries(run_id, n))))
        sealed = await log.sealer.seal()
        assert sealed is not None
        if number % (4 * seal_every) == 0:
            log.kept.notes.append(sealed.note)
    log.kept.notes.append((await log.sealer.current()).note)


async def asked_by_a_run(log: AuditLog, run_id: UUID, calls: int) -> None:
    """Store a run whose log asks for *calls* calls."""
    connection = await asyncpg.connect(log.dsn)
    try:
        await add_run(connection, run_id, [uuid5(run_id, f"call:{n}:0") for n in range(calls)], PROJECT)
    finally:
        await connection.close()


async def add_run(connection: Any, run_id: UUID, calls: Iterable[UUID], project: str, caller: str = CALLER) -> None:
    """Store a run of *caller* in *project* whose log asks for *calls*, as the owner of the database."""
    said = [{"execution_id": str(one), "args": {"nul": "\\u0000"}} for one in calls]
    text = json.dumps({"type": "instruction_issued", "instruction": {"kind": "call_tools", "calls": said}})
    columns = await connection.fetch(
        "SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = 'runs'"
        " AND table_name = 'run' AND is_nullable = 'NO' AND column_default IS NULL"
    )
    others = [row for row in columns if row["column_name"] not in {"run_id", "project", "caller"}]
    names, values = [row["column_name"] for row in others], [_any(row["data_type"]) for row in others]
    await connection.execute(
        f"INSERT INTO runs.run (run_id, project, caller, {', '.join(names)}) VALUES ($1, $2, $3, {', '.join(values)})"
        " ON CONFLICT DO NOTHING",
        *(run_id, project, caller),
    )
    await connection.execute(
        "INSERT INTO runs.run_event (run_id, seq, at, type, event)"
        " VALUES ($1, 3, now(), 'instruction_issued', $2::json)",
        *(run_id, text),
    )


def _any(kind: str) -> str:
    """A value of a column that the audit never looks at."""
    match kind:
        case "text":
            return "''"
        case "uuid":
            return "gen_random_uuid()"
        case "boolean":
            return "false"
        case "json" | "jsonb":
            return f"'{{}}'::{kind}"
        case "timestamp with time zone":
            return "now()"
        case "bytea":
            return "''::bytea"
        case _:
            return "0"


class Forger:
    """Takes a bundle apart and puts another one together, with valid hashes, checkpoints and signatures throughout."""

    def __init__(self, lines: list[str], key: Signer) -> None:
        self.key = key
        self.header = json.loads(lines[0])
        self.body: list[Line] = [line for line in map(json.loads, lines[1:]) if line["kind"] != "page"]

    def leaves(self) -> list[int]:
        """The places of leaves in the body."""
        return [place for place, line in enumerate(self.body) if line["kind"] == "leaf"]

    def copy(self) -> "Forger":
        """Another one of the same bundle."""
        other = copy.copy(self)
        other.header, other.body = copy.deepcopy(self.header), copy.deepcopy(self.body)
        return other

    def lines(self) -> list[str]:
        """Everything anew: leaf numbers, leaf hashes, commitments, roots, signatures, pages."""
        edge = MerkleFrontier(self.header["first"], tuple(bytes.fromhex(one) for one in self.header["edge"]))
        done: list[Line] = []
        for line in self.body:
            made, edge = self._again(line, edge)
            done.append(made)
        written = [bundle.serialize_line({**self.header, "size": edge.size}), *map(bundle.serialize_line, done)]
        return [*written, bundle.page(0, "", written, self.key, last=True)]

    def _again(self, line: Line, edge: MerkleFrontier) -> tuple[Line, MerkleFrontier]:
        match line["kind"]:
            case "leaf":
                return self._leaf(line, edge)
            case "hidden":
                entries = [HiddenEntry(*map(bytes.fromhex, one)) for one in line["entries"]]
                return {**line, "leaf": edge.size}, edge.extended(one.leaf_hash() for one in entries)
            case "checkpoint":
                return self._checkpoint(line, edge), edge
            case _:
                return line, edge

    def _leaf(self, line: Line, edge: MerkleFrontier) -> tuple[Line, MerkleFrontier]:
        entry = dict(line["entry"])
        if line["payload"] is not None:
            entry["commitment"] = ErasablePayload.read(line["payload"]).commitment()
        made = AuditLogEntry.read(entry)
        again = {**line, "leaf": edge.size, "entry": entry, "hash": made.leaf_hash().hex()}
        return again, edge.extended([made.leaf_hash()])

    def _checkpoint(self, line: Line, edge: MerkleFrontier) -> Line:
        text = line["note"].rpartition("\n\n")[0] + "\n"
        said = Checkpoint.read(text)
        return {**line, "note": self.key.note(Checkpoint(said.origin, edge.size, edge.root, said.at).text())}


def sizes(notes: Iterable[str], key: Signer) -> list[int]:
    """How many leaves the checkpoints *notes* cover."""
    return [Checkpoint.read(open_note(note, [key.public])[0]).size for note in notes]
