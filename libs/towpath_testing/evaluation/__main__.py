"""`python -m towpath_testing.evaluation`: evaluates a suite; the command line starts it, since it may not import it.

Reads an `EvaluationRequest` as JSON from stdin and writes JSON lines. They go where stdout was: what tools print in
this process comes out at stderr, so that it is no part of the answer.
"""

import asyncio
import json
import os
import sys
from typing import Any, TextIO

from towpath.errors import DeclarationError, problem_of
from towpath_contracts.problems.registry import problem
from towpath_testing.evaluation.evaluator import EvaluationRequest, evaluate


def main() -> int:
    """Evaluate what stdin asks for; returns the exit code."""
    return answer(sys.stdin.read())


def answer(request: str) -> int:
    """Evaluate what the JSON text *request* asks for; returns the exit code."""
    sys.stdout.flush()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        asked = EvaluationRequest.model_validate_json(request)
        asyncio.run(_evaluate(asked, answers))
    except KeyboardInterrupt:
        return 130
    except SystemExit as ended:  # of a file with tools: its code says nothing about the evaluation
        detail = f"a file with tools ended the process that evaluates it: SystemExit({ended.code!r})"
        found = problem("user_code_unreadable", detail, remedy="Call sys.exit in the program, not in the file.")
        _write(answers, {"problem": found.model_dump(mode="json")})
        return 1
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the command line shows it
        found = problem("project_invalid", str(error)) if isinstance(error, DeclarationError) else problem_of(error)
        _write(answers, {"problem": found.model_dump(mode="json")})
        return 1
    return 0


async def _evaluate(asked: EvaluationRequest, answers: TextIO) -> None:
    async for line in evaluate(asked):
        _write(answers, line)


def _write(answers: TextIO, line: Any) -> None:
    answers.write(json.dumps(line, default=str) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
