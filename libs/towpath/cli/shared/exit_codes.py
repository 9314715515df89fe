"""How a failure looks on the command line, and which exit code it gives.

0 ok, 1 the run failed, 2 usage, 3 not found, 4 denied, 5 still waiting, 6 no server answers, 130 interrupted.
Every message is `code title: detail` and a remedy.
"""

import re
import sys
from collections.abc import Sequence

from towpath.cli.shared.text import plain_json, printable
from towpath.errors import problem_of
from towpath_contracts.problems.input_faults import is_located, summary_of
from towpath_contracts.problems.registry import REGISTRY, Problem, ProblemDetail

OK, RUN_FAILED, USAGE, NOT_FOUND, DENIED, WAITING, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 6, 130

_BY_STATUS = {400: USAGE, 401: DENIED, 403: DENIED, 404: NOT_FOUND, 405: USAGE, 408: WAITING, 413: USAGE, 422: USAGE}
_BY_CODE = {
    "server_unreachable": UNREACHABLE,
    "unavailable": UNREACHABLE,
    "file_missing": USAGE,
    "backup_unreadable": USAGE,
    "id_ambiguous": USAGE,
    "binary_missing": USAGE,
    "broker_denied": DENIED,
    "database_denied": DENIED,
    "database_address_invalid": USAGE,
    "database_missing": USAGE,
    "database_setting_refused": USAGE,
    "database_too_old": USAGE,
    "database_untrusted": USAGE,
    "broker_untrusted": USAGE,
    "user_code_unreadable": USAGE,
}


_CORRECT = "Correct the command and run it again; with --help it says what it takes."
_START = "Start it: towpath up, or name another: --server URL."
_OPTION = re.compile(r"--[a-z]|NETWORK:|MESSAGE:")
"""How a text begins that says what is wrong with an option, or with a word that stands without one."""

_CORRECT_LISTED = "Correct what is listed, and run the command again."


def exit_code(found: Problem) -> int:
    """Return the exit code of a problem."""
    return _BY_CODE.get(found.code, _BY_STATUS.get(found.status, RUN_FAILED))


def format_problem(found: Problem) -> list[str]:
    """Return the message of *found*, ready to print."""
    detail, several = _split_detail(found)
    return [f"{found.code}  {found.title}: {printable(detail)}", *several, f"  {printable(found.remedy)}"]


def _split_detail(found: Problem) -> tuple[str, list[str]]:
    """Return the detail and the list of problems so that nothing is printed twice: one alone, many in the list."""
    listed = list(dict.fromkeys(f"  - {printable(_placed(entry))}" for entry in found.errors))
    texts = {text for entry in found.errors for text in (_placed(entry), entry.detail) if text}
    repeated = [place for place in map(found.detail.find, texts) if place >= 0]
    if not repeated:
        return found.detail, listed
    placed = _placed(found.errors[0])
    if len(listed) == 1 and (found.errors[0].pointer in found.detail or placed == found.errors[0].detail):
        return found.detail, []
    return found.detail[: min(repeated)].strip(" :;") or f"{len(listed)} problems", listed


def _placed(entry: ProblemDetail) -> str:
    """Return what is wrong behind its place; what names an option, or the line of a file, needs no other."""
    return entry.detail if _has_place(entry) else summary_of((entry,))


def _has_place(entry: ProblemDetail) -> bool:
    return _OPTION.match(entry.detail) is not None or is_located(entry.detail)


def report(error: Exception, arguments: Sequence[str] = ()) -> int:
    """Print *error* to stderr, as JSON when the command line asked for JSON, and return the exit code."""
    found = _of_a_command(problem_of(error))
    if _wants_json(arguments):
        print(plain_json(found.model_dump(mode="json")), file=sys.stderr)
    else:
        print("\n".join(format_problem(found)), file=sys.stderr)
    return exit_code(found)


def _of_a_command(found: Problem) -> Problem:
    """Return *found* with a remedy for who typed a command, where it has the one for whoever sends requests."""
    if found.code not in {"request_invalid", "server_unreachable"} or found.remedy != REGISTRY[found.code].remedy:
        return found
    if found.code == "server_unreachable":
        return found.model_copy(update={"remedy": _START})
    return found.model_copy(update={"remedy": _CORRECT_LISTED if len(found.errors) > 1 else _CORRECT})


def _wants_json(arguments: Sequence[str]) -> bool:
    words = " ".join(arguments)
    return re.search(r"(^| )((-o|--output)[ =]?jsonl?|--json)( |$)", words) is not None
