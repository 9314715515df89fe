"""Tampers with a bundle of a real log in random ways, and counts what `verify` finds and locates.

`python -m tests.oracles.audit_mutants [--entries 2000] [--mutants 1000] [--seed 1]` starts a Postgres, fills and seals
a log, exports it, and tries half of the mutants without the key and half with it (every hash and signature computed
anew). It prints one JSON line and exits with 1 if a mutant was missed or located wrongly, or a correct bundle was
rejected.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections import Counter

from tests.support.tas.audit_log import AuditLog, Forger, audit_log, fill
from tests.support.tas.audit_mutants import inside, outside

from towpath_audit.report import AuditReport
from towpath_audit.verifier import verify
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric.postgres.migrations import migrate


async def bundles(entries: int) -> tuple[list[str], list[str], AuditLog]:
    """Return an honest bundle, the same log's after 10 % of its payloads were erased, and the log (closed)."""
    with temporary_folder() as folder:
        server = Postgres(folder, durable=False)
        await server.start()
        try:
            await server.ensure_database()
            await migrate(server.dsn())
            async with audit_log(server.dsn(), server.dsn("towpath_tas")) as log:
                calls = entries // 3 + 1
                await fill(log, calls)
                whole = await log.export()
                rows = await log.owner(
                    "SELECT DISTINCT execution_id FROM tas.audit_record WHERE execution_id IS NOT NULL LIMIT $1",
                    calls // 10,
                )
                for row in rows:
                    await log.erase(execution_id=row["execution_id"])
                return whole, await log.export(), log
        finally:
            await server.stop()


def main() -> int:
    """Run; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=2_000)
    parser.add_argument("--mutants", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    whole, erased, log = asyncio.run(bundles(options.entries))

    def check(lines: list[str]) -> AuditReport:
        return verify(lines, checkpoints=log.kept.notes, keys=[log.notes.public.fingerprint])

    began = time.perf_counter()
    honest = [check(whole), check(erased)]
    took = time.perf_counter() - began
    forger, chance = Forger(whole, log.notes), random.Random(options.seed)
    tried, missed = Counter[str](), []
    for number in range(options.mutants):
        mutant = inside(forger, chance) if number % 2 else outside(whole, chance)
        tried[mutant.what.split()[0]] += 1
        report = check(mutant.lines)
        if not mutant.found_by(report):
            missed.append(f"{mutant.what}: {[fault.as_json() for fault in report.faults[:2]]}")
    doubted = [fault.as_json() for report in honest for fault in report.faults]
    figures = {
        "entries": honest[0].figures["leaves"],
        "payloads_erased": honest[1].figures["payloads_erased"],
        "mutants": sum(tried.values()),
        "by_kind": dict(tried),
        "missed": missed,
        "false_alarms": doubted,
        "verified_entries_per_s": round((honest[0].figures["leaves"] + honest[1].figures["leaves"]) / took),
    }
    sys.stdout.write(json.dumps(figures) + "\n")
    return 1 if missed or doubted else 0


if __name__ == "__main__":
    sys.exit(main())
