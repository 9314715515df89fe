"""What bench/scale.py has measured, as Markdown."""

from typing import Any

from comparison.table import number, rows

Found = dict[str, Any]


def columns(titles: list[str], measured: dict[str, Found], keys: dict[str, tuple[str, int]]) -> str:
    """Write a line for each figure of *keys* (its title and decimals) and a column for each measurement."""
    body = [
        [title, *(number(found[key], decimals) if key in found else "-" for found in measured.values())]
        for key, (title, decimals) in keys.items()
    ]
    return rows(["", *titles], body)


def replicas_table(found: Found) -> str:
    """Write what many replicas give."""
    keys = {
        "steps_per_s": ("steps/s", 0),
        "cpu_ms_per_step": ("CPU ms per step", 2),
        "conflicts_per_1000_steps": ("conflicts per 1,000 steps", 1),
        "reloads_per_1000_steps": ("states read again per 1,000 steps", 1),
        "cpu_share_of_others": ("other programs' share of the processors", 2),
    }
    runs = next(iter(found.values()))["runs"]
    return columns([f"{n} of each, {number(runs, 0)} runs at once" for n in found], found, keys)


def length_table(found: Found) -> str:
    """Write what a step costs in runs of each length, and at both ends of the longest."""
    keys = {
        "ms_per_step": ("ms per step", 1),
        "cpu_ms_per_step": ("CPU ms per step", 2),
        "stored_bytes_per_step": ("bytes stored per step", 0),
        "written_bytes_per_step": ("bytes written to Postgres' log per step", 0),
    }
    lengths, ends = found["lengths"], found["ends"]
    table = columns([f"{number(int(n), 0)} steps" for n in lengths], lengths, keys)
    times = {key: number(ends[key], 2) for key in ("times_as_long", "times_the_cpu")}
    each = {
        end: f"{number(ends[f'{end}_ms_per_step'], 1)} ms, CPU {number(ends[f'{end}_cpu_ms_per_step'], 2)} ms"
        for end in ("first", "last")
    }
    last = (
        f"The last {ends['steps']} steps of the longest run ({each['last']} each) took {times['times_as_long']} times"
        f" as long as its first {ends['steps']} ({each['first']} each), and {times['times_the_cpu']} times the CPU."
    )
    return f"{table}\n\n{last}"


def memory_table(titles: list[str], measured: list[dict[str, float]]) -> str:
    """Write the memory of each process in each of some situations."""
    names = sorted({name for memory in measured for name in memory} - {"all"})
    body = [[name, *(number(m[name], 1) if name in m else "-" for m in measured)] for name in [*names, "all"]]
    return rows(["memory (PSS), MB", *titles], body)


def queued_table(found: Found) -> str:
    """Write what a step costs with a short and a long queue, and who keeps what of it in memory."""
    keys = {
        "queued": ("runs queued", 0),
        "accepted_s": ("seconds to accept them", 1),
        "steps_per_s": ("steps/s", 0),
        "cpu_ms_per_step": ("CPU ms per step", 2),
    }
    both = {"short": found["short"], "long": found["long"]}
    titles = [f"{number(one['runs'], 0)} runs submitted" for one in both.values()]
    long = found["long"]
    memories = [long["memory_mb_before"], long["memory_mb_queued"], long["memory_mb_executing"]]
    return "\n\n".join(
        [
            columns(titles, both, keys),
            memory_table(["before", f"{number(long['queued'], 0)} queued", "while they are executed"], memories),
        ]
    )


def parked_table(found: Found) -> str:
    """Write what an idle platform costs with parked runs, and how fast one goes on."""
    every = [found["none"], found["few"], found["many"]]
    titles = [f"{number(one.get('parked', 0), 0)} parked" for one in every]
    flat = {
        str(place): {**one, "cpu": one["cpu_ms_per_s"]["all"], "orchestrator": one["cpu_ms_per_s"]["orchestrator"]}
        for place, one in enumerate(every)
    }
    keys = {
        "cpu": ("CPU ms per second, idle", 1),
        "orchestrator": ("of these the orchestrator", 1),
        "wake_ms_p50": ("ms from approval to end, median", 1),
        "wake_ms_max": ("ms from approval to end, most", 1),
    }
    return "\n\n".join([columns(titles, flat, keys), memory_table(titles, [one["memory_mb"] for one in every])])


SECTIONS = {
    "replicas": ("Replicas", replicas_table),
    "length": ("Length of a run", length_table),
    "queued": ("Queued runs", queued_table),
    "parked": ("Parked runs", parked_table),
}


def text(found: Found) -> str:
    """Write all of it."""
    trial = "**A quick trial, to see that the command works: no measurement.** " if found["quick"] else ""
    parts = [f"{trial}{found['date']}, {found['machine']}."]
    parts += [f"### {title}\n\n{table(found[name])}" for name, (title, table) in SECTIONS.items() if name in found]
    return "\n\n".join(parts)
