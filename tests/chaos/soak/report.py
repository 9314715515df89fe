"""What the samples of a soak tell: what grows, how fast the runs went, and what they cost."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from tests.chaos.soak.samples import HARNESS, KIB
from tests.chaos.soak.slopes import GrowthSlope, growth_slopes

from towpath_embedded.processes.role_names import role_of

_OWN_WAY: Final = frozenset({("postgres", "fds"), ("postgres", "threads")})
Sample = Mapping[str, Any]


def growth_report(samples: Sequence[Sample], **warm_up: float) -> dict[str, Any]:
    """Return slopes, rates and costs by *samples*."""
    slopes = growth_slopes(samples, **warm_up)
    return {
        "samples": len(samples),
        "slopes": [_row(slope) for slope in slopes],
        "rate": _rate(samples),
        "cpu_ms_per_run": _costs(samples),
        "stored": _stored(samples),
    }


def growing(found: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each part that grows.

    The harness keeps ids of what it submitted and is not judged, nor are the files and sessions of the database, which
    has a file open for every table that a session has seen.
    """
    return [
        f"{row['service']}: {row['measure']} grows by {row['slope']} ({row['low']} to {row['high']}) per 10,000 runs"
        for row in found["slopes"]
        if row["verdict"] == "grows" and row["service"] != HARNESS and (row["service"], row["measure"]) not in _OWN_WAY
    ]


def _row(slope: GrowthSlope) -> dict[str, Any]:
    numbers = {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(slope).items()}
    return {**numbers, "verdict": slope.verdict}


def _rate(samples: Sequence[Sample]) -> dict[str, float]:
    if len(samples) < 2:
        return {}
    first, last = samples[0], samples[-1]
    seconds, done = last["at"] - first["at"], last["work"]["done"] - first["work"]["done"]
    return {
        "runs": done,
        "seconds": round(seconds, 1),
        "runs_per_s": round(done / seconds, 2),
        "no_room_share": round((last["work"].get("waited_s", 0) - first["work"].get("waited_s", 0)) / seconds, 3),
    }


def _costs(samples: Sequence[Sample]) -> dict[str, float]:
    """The processor time of each service, of all lives of its processes together; ended children are not in it."""
    lives: dict[tuple[str, int], list[float]] = defaultdict(list)
    for sample in samples:
        for name, use in sample["services"].items():
            if "cpu_s" in use:
                lives[name, sample["pids"][name]].append(use["cpu_s"])
    done = samples[-1]["work"]["done"] - samples[0]["work"]["done"] if samples else 0
    if not done:
        return {}
    begun = {key for key in lives if key[1] == samples[0]["pids"].get(key[0])}
    used: dict[str, float] = defaultdict(float)
    for key, seconds in lives.items():
        used[role_of(key[0])] += max(seconds) - (seconds[0] if key in begun else 0.0)
    costs = {name: round(seconds * 1000 / done, 3) for name, seconds in sorted(used.items())}
    return {**costs, "all": round(sum(costs.values()), 3)}


def _stored(samples: Sequence[Sample]) -> dict[str, Any]:
    """How many bytes a run leaves in the database, by table, in its log of changes, and in the broker's streams."""
    whole = [sample for sample in samples if "tables" in sample and "streams" in sample]
    done = whole[-1]["work"]["done"] - whole[0]["work"]["done"] if whole else 0
    if not done:
        return {}
    first, last = whole[0], whole[-1]
    tables = {
        name: (one["bytes"] - first["tables"].get(name, {"bytes": 0})["bytes"]) / done
        for name, one in last["tables"].items()
    }
    largest = sorted(tables, key=lambda name: -tables[name])[:12]
    return {
        "database_kib_per_run": round((last["database"]["bytes"] - first["database"]["bytes"]) / done / KIB, 2),
        "wal_kib_per_run": round((last["database"]["wal"] - first["database"]["wal"]) / done / KIB, 2),
        "wal_files_mib": round(last["database"]["wal_files"] / KIB / KIB, 1),
        "table_bytes_per_run": {name: round(tables[name]) for name in largest},
        "stream_bytes_per_run": {
            name: round((one["bytes"] - first["streams"].get(name, one)["bytes"]) / done, 1)
            for name, one in last["streams"].items()
        },
        "redelivered": {name: one["redelivered"] for name, one in last["streams"].items() if one["redelivered"]},
    }
