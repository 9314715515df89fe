"""`towpath chaos`: kills and starves every part of a platform of its own, and prints what is left of the promises.

The platform that is broken is started for this and thrown away; a platform that runs here is never touched. The
work is done by `python -m towpath_embedded.chaos`; this file passes options on and draws the result.
"""

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import towpath
from towpath.cli.shared.child_process import run_in_checkout, run_module
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import JsonOutput
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import one_line
from towpath_contracts.problems.registry import ProblemError, problem

SCENARIOS = "tests.chaos"
Flag = Annotated[bool, Parameter(negative="")]
Names = Annotated[tuple[str, ...], Parameter(negative="", consume_multiple=True)]

_MUST_BE_ZERO = (
    *("lost", "duplicates", "audit_holes", "orphans", "double", "diff", "late", "strayed", "differing"),
    "replay_mismatches",
)
_SHORT = {"orchestrator": "orch", "decider": "decid", "log_writer": "log", "gateway": "gate", "postgres": "pg"}


async def chaos(
    *,
    quick: Flag = False,
    network: Path | None = None,
    decisions: Path | None = None,
    tools: Path | None = None,
    policy: Path | None = None,
    faults: Names = (),
    kills: int | None = None,
    runs: int = 0,
    seed: int = 1,
    long: Flag = False,
    scenario: Names = (),
    data: Path | None = None,
    json: Flag = False,
    output: JsonOutput = None,
    list: Flag = False,  # noqa: A002 - the option's name
) -> int:
    """Kill every part of a platform at every event of a run, and judge what is left.

    It starts a platform of its own and throws it away. Tools are stood in for: they only note that they were called.
    Exit code 1 when anything was lost, done twice, or never struck.

    Args:
        quick: About 160 kills in a few minutes, in place of 1,000.
        network: A network of your own (YAML); without it, a built-in one and the support sample.
        decisions: What the model says in a run of that network: a JSON array of decisions, as `towpath run --script`.
        tools: The module with its tools, for their schemas and effect classes; undeclared tools count as irreversible.
        policy: The permission matrix; without it the network may call what it is equipped with.
        faults: Which faults: names, actions (kill, stop, wipe) or parts (nats, worker); all by default. See --list.
        kills: How many kills.
        runs: Further runs that nobody aims at.
        seed: The same seed and network give the same plan.
        long: Freeze processes for longer than every lease; of a scenario the form whose figures the catalogue names.
        scenario: Run these scenarios in place of a campaign, or all: broker-cluster, postgres-failover,
            rolling-upgrade, restore and the others; with --seed, --long, --data and --json alone. They belong to the
            tests of Towpath, so they run in a checkout only.
        data: Keep the platform and the outside file in this new folder.
        json: Print one JSON document; everything else goes to stderr.
        output: The same.
        list: Print the faults.
    """
    json = json or output is not None
    out = OutputPrinter("json" if json else None, aside=json)
    if scenario:
        campaign: dict[str, object] = {"quick": quick, "network": network, "decisions": decisions, "tools": tools}
        campaign |= {"policy": policy, "faults": faults, "kills": kills, "runs": runs, "list": list}
        if given := [f"--{name}" for name, value in campaign.items() if value not in (None, False, (), 0)]:
            raise ProblemError(problem("request_invalid", f"{', '.join(given)}: of a campaign, not of a scenario"))
        words = _command_line({"seed": seed, "data": _absolute(data)}, {"scenario": scenario}, {"long": long})
        return await _run_scenarios(words, out, as_json=json)
    arguments = _command_line(
        {"network": network, "decisions": decisions, "tools": tools, "policy": policy, "kills": kills, "data": data},
        {"faults": faults},
        {"quick": quick, "long": long, "list": list},
    )
    arguments += ("--runs", str(runs), "--seed", str(seed))
    code, found = await run_module("towpath_embedded.chaos", *arguments)
    if json or not out.for_people:
        out.line(found)
    elif list:
        out.write("faults: " + ", ".join(found["faults"]))
    else:
        _show(found, out)
    return OK if code == OK else RUN_FAILED


async def _run_scenarios(words: tuple[str, ...], out: OutputPrinter, *, as_json: bool) -> int:
    """Run the scenarios of this checkout, and show how each went; raises ProblemError `binary_missing` without one."""
    code, found = await run_in_checkout(checkout_of(Path(towpath.__file__)), SCENARIOS, *words)
    if as_json or not out.for_people:
        out.line(found)
        return OK if code == OK else RUN_FAILED
    columns = (Column("scenario", "name"), Column("outcome", "outcome"), Column("seconds", "seconds"))
    out.rows("scenarios", found["scenarios"], columns, empty="nothing was run")
    for one in found["scenarios"]:
        for sentence in (*one["problems"], *filter(None, [one["reason"]])):
            out.write(f"  {one['name']}: {one_line(sentence, 300)}", "red" if one["problems"] else "yellow")
        out.write(
            f"  {one['name']}: " + ", ".join(f"{name} {figure}" for name, figure in one["figures"].items()), "dim"
        )
    return OK if code == OK else RUN_FAILED


def _absolute(data: Path | None) -> Path | None:
    """Return the folder as the child finds it, which runs in another."""
    return None if data is None else data.absolute()


def checkout_of(package: Path) -> Path:
    """Return the checkout that *package*, a file of the SDK, is part of; raises ProblemError where it is installed."""
    for folder in package.resolve().parents:
        if (folder / "tests" / "chaos" / "__main__.py").is_file() and (folder / "pyproject.toml").is_file():
            return folder
    version = metadata.version("towpath")
    detail = f"scenarios belong to the tests of Towpath, and {package.parent} is installed without them"
    remedy = (
        f"Clone it as version {version}: git clone --branch v{version} REPOSITORY towpath && cd towpath; "
        "then: uv run --group dev towpath chaos --scenario NAME."
    )
    raise ProblemError(problem("binary_missing", detail, remedy=remedy))


def _command_line(
    values: Mapping[str, object], many: Mapping[str, tuple[str, ...]], flags: Mapping[str, bool]
) -> tuple[str, ...]:
    """Return the options as a command line."""
    given = [word for name, value in values.items() if value is not None for word in (f"--{name}", str(value))]
    given += [word for name, entries in many.items() for entry in entries for word in (f"--{name}", entry)]
    return (*given, *(f"--{name}" for name, is_set in flags.items() if is_set))


def _show(found: dict[str, Any], out: OutputPrinter) -> None:
    """Draw the matrix, the figures, and what is wrong."""
    names = [*found["by_fault"]]
    columns = [Column("boundary", "boundary"), *(Column(_title(name), name) for name in names)]
    rows = [
        {"boundary": label, **{name: _cell(cells[name]) for name in cells}} for label, cells in found["matrix"].items()
    ]
    out.write("\nstrikes by boundary and fault (L lost, D done twice, u outcome unknown and settled by a person)\n")
    out.rows("matrix", rows, columns, empty="nothing was struck")
    out.write("")
    totals = [{"fault": name, **figures, **_times(figures)} for name, figures in found["by_fault"].items()]
    figures = ("fault", "strikes", "lost", "duplicates", "unknown", "p50 s", "p99 s")
    out.rows("faults", totals, [Column(name, name) for name in figures], empty="nothing was struck")
    completed = f"{found['completed']} of {found['runs']} runs completed ({found['completed_share']:.1%})"
    kills = f"{found['kills']} kills among {found['strikes']} strikes"
    out.write(f"\n{kills}; {completed}; {found['seconds']:.0f} s, seed {found['seed']}")
    out.write("  ".join(f"{name} {found[name]}" for name in _MUST_BE_ZERO))
    for cause, count in found["unknown_by_cause"].items():
        out.write(f"  unknown {count} times: {cause}", "yellow")
    for sentence in found["problems"]:
        out.write(f"  {one_line(sentence, 300)}", "red")
    held = not found["problems"]
    out.write("everything held" if held else "not everything held", "green" if held else "red")


def _title(fault: str) -> str:
    """Return a fault's name on two lines, so that thirteen of them fit into a terminal."""
    action, _, target = fault.partition(".")
    return f"{action}\n{_SHORT.get(target, target)}"


def _cell(figures: Mapping[str, Any]) -> str:
    marks = (("L", "lost"), ("D", "duplicates"), ("u", "unknown"))
    return " ".join((str(figures["strikes"]), *(f"{mark}{figures[name]}" for mark, name in marks if figures[name])))


def _times(figures: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{name} s": figures["recovery_s"][name] for name in ("p50", "p99")}
