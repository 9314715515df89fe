"""Applies and shows policies (the text of the permission matrix), and watches a policy file.

A policy is applied whole or not at all, every version is kept, and every change is audited in the same transaction. An
identical text is no change, unless it comes from another policy file: a version says which file is followed.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from towpath_contracts.canonical import digest_text
from towpath_contracts.problems.input_faults import tell_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem
from towpath_contracts.tools.access import ApplyPolicy, GetPolicy, PolicyApplied, PolicyView
from towpath_fabric.postgres.pool import DATABASE_DOWN
from towpath_fabric.postgres.refused_values import INVALID_DATA
from towpath_fabric.profiles.policy_profiles import policy_file_name, policy_source
from towpath_fabric.telemetry.logs import Logger
from towpath_tas.adapters.ledger_tables import QUERIES, platform_audit_row
from towpath_tas.adapters.policy_texts import PolicyText, read_policy_text
from towpath_tas.app.policy.policy_threads import MAX_ANSWER_CHARS, PolicyThreads
from towpath_tas.app.policy.policy_warnings import PolicyFindings, PolicyLinter
from towpath_tas.app.policy_cache import PolicyCache
from towpath_tas.core.call import key_detail
from towpath_tas.core.policy.matrix import Rule
from towpath_tas.core.policy.policy_file import rule_from_row, rule_row, rules_digest

FILE_POLL_S = 0.5
FILE_ACTOR = "file"
"""The actor of changes from the policy file, in the audit and in the list of versions."""

MIN_RULE_CHARS = 300
"""A stored rule has its members' names at least: more of them than fit an answer need not be read to know that."""

MAX_NAMED = 50
"""Rules named in one audit entry; of a larger change it has only the counts."""


class PolicyStore:
    """Applies the policy texts of projects as new versions, and shows them."""

    def __init__(self, pool: Any, policy_cache: PolicyCache, threads: PolicyThreads) -> None:
        self._pool = pool
        self._policy_cache = policy_cache
        self._threads = threads
        self._advice = PolicyLinter(pool, policy_cache)

    async def apply(self, request: ApplyPolicy) -> PolicyApplied:
        """Store a policy as the next version; its rules stand in its source, where that is a file.

        Raises ProblemError `policy_invalid` with all errors, with `strict` also all warnings, and `policy_moved` if
        another version than the named one is in force; `overloaded` if the project has others read before it.
        """
        return await self.apply_from(request, request.source)

    async def apply_from(self, request: ApplyPolicy, file: str, known: Iterable[Any] = ()) -> PolicyApplied:
        """Do the same with a policy that people know as *file*.

        Rules that are among the *known*, as `rule_places` has them, are found where they stood: the text was made from
        that of the version which has these.
        """
        written, rows, advised = await self._read(request, file, known)
        found = written.read
        text_digest = digest_text(written.text)
        async with self._pool.acquire() as connection, connection.transaction():
            state = await connection.fetchrow(QUERIES.lock_project, request.project)
            current = await connection.fetchrow(QUERIES.policy, request.project)
            version = state["policy_version"]
            if request.if_version not in {None, version}:
                detail = f"version {version} is in force, not {request.if_version}; nothing was changed"
                raise ProblemError(problem("policy_moved", detail))
            changed = current is None or current["digest"] != text_digest or _follows_another(request, current)
            if changed and not request.dry_run:
                version += 1
                await self._store(connection, request, version, written, rows)
        return PolicyApplied(
            version=version,
            digest=text_digest,
            rules=len(found.rules),
            changed=changed,
            warnings=tuple(warning.detail for warning in advised.warnings),
            hints=advised.hints,
        )

    async def _read(
        self, request: ApplyPolicy, file: str, known: Iterable[Any]
    ) -> tuple[PolicyText, "_RuleRows", PolicyFindings]:
        """Return what the text says, and what is probably wrong with it; raises ProblemError `policy_invalid`."""
        texts = self._threads.texts
        async with texts.turn(request.project):
            written = await texts.compute(partial(read_policy_text, request.text, file))
            if written.read.problems:
                raise _refused(request, written.read.problems)
            written.read.rules = await texts.compute(partial(_with_known_places, written.read.rules, known))
            rows = await texts.compute(partial(_rule_rows, written.read.rules))
            advised = await self._advice.about(request.project, written, texts)
        if request.strict and advised.warnings:
            raise _refused(request, advised.warnings)
        return written, rows, advised

    async def show(self, request: GetPolicy) -> PolicyView:
        """Return the policy in force (version 0: there is none), or a version, with its rules.

        Raises ProblemError `version_not_found`, `answer_too_large` before any rule is parsed, and `overloaded`.
        """
        questions = self._threads.questions
        async with questions.turn(request.project):
            row = await self._row(request)
            if row is None:
                return _view(None, ())
            _refuse_large(row, row["rules"] * MIN_RULE_CHARS)
            stored = await self._pool.fetch(QUERIES.rules, request.project, row["version"])
            _refuse_large(row, sum(len(rule["rule"]) for rule in stored))
            return await questions.compute(partial(_view, row, stored))

    async def show_text(self, request: GetPolicy) -> PolicyView:
        """Return the same without the rules, however many there are."""
        return _view(await self._row(request), ())

    async def _row(self, request: GetPolicy) -> Any:
        if request.version is None:
            return await self._pool.fetchrow(QUERIES.policy, request.project)
        row = await self._pool.fetchrow(QUERIES.policy_version, request.project, request.version)
        if row is None:
            raise ProblemError(problem("version_not_found", f"the matrix has no version {request.version}"))
        return row

    async def log_in_force(self, project: str, log: Logger) -> None:
        """Log which policy is in force: whoever starts a platform reads there what decides about its calls."""
        row = await self._pool.fetchrow(QUERIES.policy, project)
        found = {"version": 0, "rules": 0, "source": "", "applied_by": ""} if row is None else dict(row)
        log.info("policy in force", **{name: found[name] for name in ("version", "rules", "source", "applied_by")})

    async def version_in_force(self, project: str) -> int | None:
        """Return the version of the policy in force, 0 where there is none; None where nobody can say just now."""
        try:
            row = await self._pool.fetchrow(QUERIES.policy, project)
        except DATABASE_DOWN:
            return None
        return 0 if row is None else int(row["version"])

    async def followed(self, project: str) -> tuple[str, str]:
        """Return source and digest of the last policy that came from a policy file; both empty if there is none."""
        found = await self._pool.fetchrow(QUERIES.last_policy_of, project, FILE_ACTOR)
        return (found["source"], found["digest"]) if found is not None else ("", "")

    async def _store(
        self, connection: Any, request: ApplyPolicy, version: int, written: PolicyText, rows: "_RuleRows"
    ) -> None:
        text_digest, rules = digest_text(written.text), written.read.rules
        before = await self._rules_before(connection, request.project, version - 1)
        await connection.execute(
            QUERIES.add_policy,
            *(request.project, version, text_digest, written.text, len(rules), request.source, request.note),
            *(request.actor, rows.digest),
        )
        await connection.execute(
            QUERIES.add_rules,
            request.project,
            version,
            *rows.columns,
        )
        await connection.execute(QUERIES.move_policy, request.project, version)
        detail = {
            "digest": text_digest,
            "source": request.source,
            "note": request.note,
            "rules_digest": rows.digest,
            **_difference(before, rules),
            **key_detail(request.key_prefix, request.key_commitment),
        }
        entry = platform_audit_row(
            request.project, "policy.applied", "applied", actor=request.actor, version=version, detail=detail
        )
        await connection.execute(QUERIES.add_audit, [entry])

    async def _rules_before(self, connection: Any, project: str, version: int) -> Sequence[Rule]:
        """Return the rules of *version*: those that are loaded, which a new policy was just held against, or read."""
        bundle = self._policy_cache.known(project)
        if bundle is not None and bundle.matrix.version == version and not bundle.rules_changed:
            return bundle.matrix.rules
        stored = await connection.fetch(QUERIES.rules, project, version)
        return [rule_from_row(json.loads(row["rule"])) for row in stored]


class PolicyFileWatcher:
    """Applies a policy file whenever it changes, including while no replica ran; an invalid one changes nothing.

    The file that was followed last, with the text that it had then, is no change, also after a restart: what people
    have changed since then stays. Where another file or profile was followed meanwhile, this one is applied again:
    whoever starts a platform with a policy must not be left with the one of an earlier start.
    """

    def __init__(self, policies: PolicyStore, path: Path, project: str, log: Logger) -> None:
        self._policies = policies
        self._path = path
        self._source = policy_source(path)
        self._file = policy_file_name(path)
        self._project = project
        self._log = log
        self._applied: tuple[int, int] | None = None
        self._empty: tuple[int, int] | None = None
        self._missing = False

    async def run(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(FILE_POLL_S)

    async def check(self) -> None:
        """Apply the file if it is not the one applied last."""
        stamp = await asyncio.to_thread(_stamp, self._path)
        if stamp is None:
            self._tell_missing()
            return
        self._missing = False
        if stamp == self._applied:
            return
        try:
            text = await asyncio.to_thread(self._path.read_text, "utf-8")
            if self._may_be_half_written(text, stamp):
                return
            written = await asyncio.to_thread(read_policy_text, text)  # what is stored has its profile written out
            if await self._policies.followed(self._project) == (self._source, digest_text(written.text)):
                self._applied = stamp
                self._log.info("policy unchanged", file=self._path.name)  # it may have been refused in between
                return
            applied = await self._policies.apply_from(
                ApplyPolicy(project=self._project, actor=FILE_ACTOR, text=text, source=self._source), self._file
            )
        except (OSError, ValueError, *INVALID_DATA) as error:
            if not isinstance(error, OSError):
                self._applied = stamp
            kept = await self._policies.version_in_force(self._project)
            self._log.error("policy refused", file=self._path.name, problem=str(error), kept=kept)
        except ProblemError as error:
            await self._take_refusal(error, stamp)
        except DATABASE_DOWN as error:
            self._log.debug("postgres is away, the policy file waits", error=str(error))
        else:
            self._applied = stamp
            self._log_applied(applied)

    def _tell_missing(self) -> None:
        if not self._missing:
            self._log.warning("policy file is missing, the last policy stays in force", file=str(self._path))
        self._missing = True

    def _may_be_half_written(self, text: str, stamp: tuple[int, int]) -> bool:
        """Return whether *text* is to be read again before it is refused: an editor empties a file before it writes."""
        seen, self._empty = self._empty, stamp
        return not text.strip() and seen != stamp

    async def _take_refusal(self, error: ProblemError, stamp: tuple[int, int]) -> None:
        if error.problem.retryable:  # others of the project have much read just now: this file's turn comes
            self._log.warning("the policy file waits", file=self._path.name, problem=error.problem.detail)
            return
        self._applied = stamp
        kept = await self._policies.version_in_force(self._project)
        if not error.problem.errors:
            self._log.error("policy refused", file=self._path.name, problem=error.problem.detail, kept=kept)
            return
        self._log.error("policy refused", file=self._path.name, problems=len(error.problem.errors), kept=kept)
        for entry in error.problem.errors:
            self._log.error("policy problem", file=self._path.name, at=entry.pointer, problem=entry.detail)

    def _log_applied(self, applied: PolicyApplied) -> None:
        for warning in (*applied.warnings, *applied.hints):
            self._log.info("policy warning", file=self._path.name, warning=warning)
        event = "policy applied" if applied.changed else "policy unchanged"
        self._log.info(event, version=applied.version, rules=applied.rules, file=self._path.name)


class _RuleRows(NamedTuple):
    """Rules as they are stored, column by column, and their digest."""

    columns: Sequence[Sequence[Any]]
    digest: str


def _with_known_places(rules: Sequence[Rule], known: Iterable[Any]) -> tuple[Rule, ...]:
    places = {(row["name"], row["digest"]): row["at"] or "" for row in known}
    return tuple(replace(rule, at=places.get((rule.name, rule.digest), rule.at)) for rule in rules)


def _rule_rows(rules: Sequence[Rule]) -> _RuleRows:
    rows = [
        (place, rule.name, rule.effect, rule.tool, rule.operation, rule_row(rule)) for place, rule in enumerate(rules)
    ]
    columns = [[row[column] for row in rows] for column in range(5)]
    return _RuleRows([*columns, [json.dumps(row[5]) for row in rows]], rules_digest(rows))


def _view(row: Any, stored: Sequence[Any]) -> PolicyView:
    if row is None:
        return PolicyView(version=0, digest="", text="")
    return PolicyView(
        **{name: row[name] for name in ("version", "digest", "text", "applied_at", "applied_by", "note")},
        rules=tuple(json.loads(rule["rule"]) for rule in stored),
    )


def _refuse_large(row: Mapping[str, Any], chars: int) -> None:
    if len(row["text"]) + chars > MAX_ANSWER_CHARS:
        detail = f"version {row['version']} has {row['rules']} rules, which are more than one message holds"
        raise ProblemError(problem("answer_too_large", detail))


def _follows_another(request: ApplyPolicy, current: Mapping[str, Any]) -> bool:
    """Whether a policy file is applied, and what is in force came from elsewhere."""
    return request.actor == FILE_ACTOR and (current["applied_by"], current["source"]) != (FILE_ACTOR, request.source)


def _refused(request: ApplyPolicy, problems: Sequence[ProblemDetail]) -> ProblemError:
    where = f"{request.source}: " if request.source else ""
    return ProblemError(problem("policy_invalid", f"{where}{tell_faults(problems)}", errors=tuple(problems)))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def _difference(before: Sequence[Rule], after: Sequence[Rule]) -> Mapping[str, Any]:
    old = {rule.name: rule.digest for rule in before}
    new = {rule.name: rule.digest for rule in after}
    added = sorted(new.keys() - old.keys())
    removed = sorted(old.keys() - new.keys())
    altered = sorted(name for name in old.keys() & new.keys() if old[name] != new[name])
    return {
        "rules": len(after),
        "added": added[:MAX_NAMED],
        "removed": removed[:MAX_NAMED],
        "altered": altered[:MAX_NAMED],
        "counts": {"added": len(added), "removed": len(removed), "altered": len(altered)},
    }
