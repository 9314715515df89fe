"""`python -m towpath_tas.app.policy.policy_test_runner`: runs a policy test file without a platform.

Reads JSON from stdin (the texts `test` and, optionally, `policy`, with the `source` of that), writes JSON to stdout,
and touches nothing else. Where `test` is null the policy alone is read. The command line starts it as a process because
it may not import the code that decides.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from towpath_contracts.files.policy_tests import PolicyTest
from towpath_contracts.problems.registry import ProblemDetail
from towpath_tas.adapters.cel import compile_condition, compile_grant
from towpath_tas.adapters.policy_texts import read_policy_text
from towpath_tas.core.expectations import CaseEvaluation, is_expected, read_expectations, run_case
from towpath_tas.core.policy.matrix import Matrix


def run_test(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cases with their lines and, if a policy is given, their results; or the problems of a file."""
    if request["test"] is None:
        return {"problems": _problems(read_policy_text(request["policy"], request.get("source") or "").read.problems)}
    read = read_expectations(request["test"])
    if read.found is None:
        return {"file": "test", "problems": _problems(read.problems)}
    found = read.found
    answer = {
        "cases": [
            {**case.model_dump(mode="json"), "line": line} for case, line in zip(found.cases, read.lines, strict=True)
        ],
        "policy": found.policy,
    }
    if request.get("policy") is None:
        return answer
    policy = read_policy_text(request["policy"], request.get("source") or "").read
    if policy.problems:
        return {"file": "policy", "problems": _problems(policy.problems)}
    return {**answer, "results": _results(Matrix(policy.rules, compile_condition), found)}


def _results(matrix: Matrix, found: PolicyTest) -> list[dict[str, Any]]:
    return [_result(run_case(matrix, case, compile_grant), case) for case in found.cases]


def _result(result: CaseEvaluation, case: Any) -> dict[str, Any]:
    return {
        "ok": is_expected(case, result),
        "verdict": result.verdict,
        "rule": result.rule,
        "rule_at": result.rule_at,
        "reason": result.reason,
        "trace": [one.model_dump(mode="json") for one in result.trace],
    }


def _problems(found: tuple[ProblemDetail, ...]) -> list[dict[str, Any]]:
    return [one.model_dump(mode="json") for one in found]


def main() -> int:
    """Run the test on stdin; returns the exit code."""
    sys.stdout.write(json.dumps(run_test(json.loads(sys.stdin.read()))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
