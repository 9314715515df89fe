"""`towpath policy test`: does a matrix answer as it must?

Offline, the code that decides live calls answers, started with `python -m` and never imported here;
without a policy file the platform is asked, whose tools and schemas then count too.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import OutputPrinter
from towpath.cli.shared.text import shorten
from towpath.extras import require_packages
from towpath_contracts.problems.input_faults import locate_fault, tell_faults
from towpath_contracts.problems.registry import ProblemDetail, ProblemError, problem

Flag = Annotated[bool, Parameter(negative="")]
MAX_FILE_BYTES = 4_000_000
Row = dict[str, Any]
_NO_TEST = "The policy test can't be read"
_REMEDY = "Correct the file at the line that is named, and test again."


def add(app: App) -> None:
    """Make this command part of `towpath policy`."""
    app.command(
        test,
        help_epilogue=examples(
            "towpath policy test verdicts.yaml",
            "towpath policy test verdicts.yaml --policy proposed.yaml",
            "towpath policy test verdicts.yaml --live",
        ),
    )


async def test(
    file: Path, /, *, policy: Path | None = None, live: Flag = False, common: ConnectionOptions = CONNECTION_OPTIONS
) -> int:
    """Check expected verdicts; the exit code is 1 where one of them is not what the matrix says.

    Args:
        file: A YAML file with kind: PolicyTest.
        policy: The matrix to ask, instead of the one that the file names; no platform is needed.
        live: Ask the matrix in force, with the registered tools; needs a platform.
    """
    if live and policy is not None:
        raise ProblemError(problem("request_invalid", "--live asks the matrix in force, so it goes without --policy"))
    text = _read(file)
    path = None if live else policy or _named_policy(text, file)
    answer = _ask(text, file, path)
    results = await _live_policy(answer["cases"], common) if path is None else answer["results"]
    matrix = "the matrix in force" if path is None else str(path)
    return _show_results(file, answer["cases"], results, matrix, common.out())


@dataclass(frozen=True, slots=True)
class FileCases:
    """A file with verdicts and the policy that it names, read."""

    file: Path
    policy: Path | None
    asked: Row
    """What `towpath_tas.app.policy.policy_test_runner` is asked."""

    def judge(self, answer: Row, out: OutputPrinter) -> tuple[int, int] | None:
        """Return how many cases pass and fail, and say why they fail; None where the file names no policy."""
        answer = _checked(answer, self.file, self.policy)
        if self.policy is None:
            return None
        rows = _rows(answer["cases"], answer["results"])
        for row in rows:
            if not row["ok"]:
                _explain(row, self.file, out)
        failed = sum(not row["ok"] for row in rows)
        return len(rows) - failed, failed


def read_cases(file: Path) -> FileCases:
    """Read *file*; raises ProblemError where it, or the policy that it names, can't be read."""
    text = _read(file)
    policy = _named_policy(text, file)
    return FileCases(file, policy, _asked(text, policy))


async def _live_policy(cases: Sequence[Row], common: ConnectionOptions) -> list[Row]:
    results = []
    async with common.connect() as client:
        for case in cases:
            who = case["who"]
            more = {name: case[name] for name in ("args", "labels", "step", "grant", "used", "spent_usd")}
            more["origin"] = case["origin"] or None
            verdict = await client.policy.check(
                network=who["network"] or "-",
                agent_key=who["agent"] or "-",
                agent_type=who["agent_type"],
                caller=who["caller"],
                tool=case["tool"],
                rates=False,  # what others have used by now says nothing of the matrix
                **{name: value for name, value in more.items() if value is not None},
            )
            view = verdict.model_dump(mode="json")
            named = case["rule"] is None or case["rule"] == (verdict.rule or "")
            results.append(
                {**view, "reason": view["violation_type"], "ok": verdict.verdict == case["verdict"] and named}
            )
    return results


def _show_results(file: Path, cases: Sequence[Row], results: Sequence[Row], matrix: str, out: OutputPrinter) -> int:
    failed = sum(not result["ok"] for result in results)
    rows = _rows(cases, results)
    if not out.for_people:
        out.data({"matrix": matrix, "cases": len(cases), "failed": failed, "results": rows})
        return RUN_FAILED if failed else OK
    for row in rows:
        if not row["ok"]:
            _explain(row, file, out)
    style = "bold red" if failed else "bold"
    out.write(f"{len(cases) - failed} of {len(cases)} verdicts are as expected of {matrix}", style)
    return RUN_FAILED if failed else OK


def _rows(cases: Sequence[Row], results: Sequence[Row]) -> list[Row]:
    return [
        {**_named(case), "expected": _expectation(case), **result} for case, result in zip(cases, results, strict=True)
    ]


def _explain(row: Mapping[str, Any], file: Path, out: OutputPrinter) -> None:
    found = _expectation(row)
    why = f" ({row['reason']})" if row["reason"] else ""
    out.write(f"{file}:{row['line']}: {row['case']}: expected {row['expected']}, got {found}{why}", "red")
    for rule in row["trace"]:
        sign = "✓" if rule["matched"] else " "
        where = f" ({rule['at']})" if rule["at"] else ""
        out.write(f"    {sign} {rule['rule']}{where} {rule['effect']}  {rule['detail']}".rstrip(), "dim")
    if not row["trace"]:
        out.write("      no rule speaks of this tool", "dim")


def _named(case: Mapping[str, Any]) -> Row:
    return {"line": case["line"], "case": case["name"] or f"{case['tool']} {shorten(case['args'], 60)}".strip()}


def _expectation(row: Mapping[str, Any]) -> str:
    rule = row["rule"]
    return f"{row['verdict']}{'' if rule is None else f' by {rule}' if rule else ' by no rule'}"


def _named_policy(text: str, test: Path) -> Path | None:
    """The matrix that a test file names; a file that is wrong in any way is refused by who reads it whole."""
    import yaml

    try:
        written = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError):
        return None
    named = written.get("policy") if isinstance(written, dict) else None
    return test.parent / named if isinstance(named, str) else None


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise ProblemError(problem("request_too_large", f"{path} is larger than {MAX_FILE_BYTES} bytes"))
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(problem("file_missing", f"{path} can't be read: {error}")) from error


def _asked(text: str, policy: Path | None) -> Row:
    return {"test": text, "policy": None if policy is None else _read(policy), "source": str(policy or "")}


def _ask(text: str, test: Path, policy: Path | None) -> Row:
    """Let the tool-access service's code answer; raises ProblemError with every problem of a bad file."""
    require_packages("towpath_tas")
    words = [sys.executable, "-P", "-m", "towpath_tas.app.policy.policy_test_runner"]
    ran = subprocess.run(words, input=json.dumps(_asked(text, policy)), capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        last = ran.stderr.strip().splitlines()[-1:] or [f"exit code {ran.returncode}"]
        raise ProblemError(problem("binary_missing", f"the policy can't be weighed here: {last[0]}"))
    return _checked(json.loads(ran.stdout), test, policy)


def _checked(answer: Row, test: Path, policy: Path | None) -> Row:
    if "problems" in answer:
        found = tuple(ProblemDetail.model_validate(one) for one in answer["problems"])
        where = policy if answer["file"] == "policy" else test
        placed = tuple(
            one.model_copy(update={"detail": locate_fault(str(where), one.detail, one.pointer)}) for one in found
        )
        refused = problem("policy_invalid", tell_faults(placed), errors=placed, remedy=_REMEDY)
        raise ProblemError(refused if where == policy else refused.model_copy(update={"title": _NO_TEST}))
    return answer
