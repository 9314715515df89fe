"""`towpath eval`: runs suites of cases, with one model or several beside each other, and says how many pass."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter, validators

from towpath.cli.evaluation.evaluation_process import evaluate
from towpath.cli.evaluation.evaluation_report import by_case, by_model, pass_rate, write_junit
from towpath.cli.evaluation.test_files import yaml_tests
from towpath.cli.shared.confirmation import Flag
from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.input_files import read_labels
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import Column, OutputPrinter
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import counted

Many = Annotated[tuple[str, ...], Parameter(negative="")]
Row = dict[str, Any]
MAX_REPEATS = 1_000

MODEL_COLUMNS = (
    Column("model", "model"),
    Column("passed", lambda row: f"{row['passed']} of {row['runs']}"),
    Column("cost", lambda row: money(row["usd"])),
    Column("tokens", "tokens"),
    Column("seconds", lambda row: f"{row['seconds']:.1f}"),
)


async def eval_suites(
    *suites: Path,
    model: Many = (),
    repeat: Annotated[int, Parameter(validator=validators.Number(gte=1, lte=MAX_REPEATS))] = 1,
    min_pass: Annotated[float, Parameter(validator=validators.Number(gte=0, lte=1))] = 1.0,
    case: Many = (),
    label: Many = (),
    record: Path | None = None,
    replay: Path | None = None,
    junit: Path | None = None,
    live: Flag = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Run the cases of suites, and judge what comes of them; the exit code is 1 where too few pass.

    Each run has a platform in memory of its own. A model of a provider is asked with the keys of this environment.

    Args:
        suites: YAML files with kind: Evaluation; those below this folder where none is named.
        model: Ask this model in place of the network's; given several times, they are compared.
        repeat: Run each case so many times, since models do not always say the same.
        min_pass: The part of all runs that has to pass, from 0 to 1.
        case: Run the case of this name alone, in whichever suite it is; may be given several times.
        label: Run the cases with this label alone, as key=value.
        record: Write the answers of models into this file.
        replay: Take the answers of models from this file; no provider is asked, and no key is needed.
        junit: Write the results into this file as JUnit XML.
        live: Run on the platform that other commands ask, with its network, policy and tools; --server and --context
            mean that too.
    """
    paths = suites or tuple(path for path, kind in yaml_tests(Path()).items() if kind == "Evaluation")
    if not paths:
        remedy = (
            "Write one: towpath schema evaluation prints its form; towpath init FOLDER writes a tests/evaluation.yaml."
        )
        raise ProblemError(problem("not_found", "there is no file with kind: Evaluation below here", remedy=remedy))
    if record is not None and len(paths) > 1:
        raise ProblemError(problem("request_invalid", "--record takes one suite: name it"))
    asked: Row = {"models": model, "repeat": repeat, "cases": case, "labels": read_labels(label)}
    asked |= {"record": _path(record), "replay": _path(replay)}
    if live or common.server is not None or common.context is not None:
        target = common.target()
        asked |= {"server": target.server, "api_key": target.api_key}
    out = common.out()
    runs: list[Row] = []
    asked |= {"suites": [str(path) for path in paths]}
    try:
        with out.progress("Evaluating") as shown:
            for path in paths:
                async for found in evaluate({**asked, "suite": str(path)}):
                    if "run" in found:
                        runs.append({"suite": str(path), **found["run"]})
                        shown.count(len(runs), "runs")
                        show_run(runs[-1], out)
    finally:  # what has run was paid for, also where the rest can't be run
        if junit is not None and runs:
            write_junit(junit, runs)
    return _show(runs, min_pass, compared=len(model) > 1, repeated=repeat > 1, out=out)


def show_run(run: Mapping[str, Any], out: OutputPrinter) -> None:
    """Print how one run went; of one that did not pass why."""
    about = [run["case"], *([run["model"]] if run["model"] else [])]
    said = f"{'✓' if run['passed'] else '✗'} {' · '.join(about)}"
    out.write(f"{said}  {run['seconds']:.1f} s" if run["passed"] else f"{said}  {run['suite']}:{run['line']}",
              None if run["passed"] else "red")  # fmt: skip
    for failure in run["failures"]:
        out.write(f"    {failure}")


def money(usd: float | None) -> str:
    """Return a sum of money, which may not be known."""
    return "unknown" if usd is None else f"${usd:.4f}"


def _show(runs: Sequence[Row], min_pass: float, *, compared: bool, repeated: bool, out: OutputPrinter) -> int:
    rate, models, cases = pass_rate(runs), by_model(runs), by_case(runs)
    enough = rate >= min_pass
    if not out.for_people:
        passed = sum(run["passed"] for run in runs)
        totals = {"runs": len(runs), "passed": passed, "pass_rate": round(rate, 4), "min_pass": min_pass}
        out.data({**totals, "ok": enough, "models": models, "cases": cases, "results": runs})
        return OK if enough else RUN_FAILED
    if repeated:
        out.write("")
        named = [Column("case", "case"), *([Column("model", "model")] if compared else [])]
        out.rows("cases", cases, (*named, *MODEL_COLUMNS[1:]), empty="")
    out.write("")
    out.rows("models", models, MODEL_COLUMNS, empty="")
    passed = sum(run["passed"] for run in runs)
    wanted = f"; {min_pass:.0%} have to" if min_pass < 1 else ""
    out.write(f"{passed} of {counted(len(runs), 'run')} passed{wanted}", "bold" if enough else "bold red")
    return OK if enough else RUN_FAILED


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)
