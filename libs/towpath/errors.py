"""Errors of the SDK.

TowpathError                 the platform refused; `.problem` says why and what to do
  x NotFoundError            no such run, network, gate (404)
  x RefusedError             the request must be changed (400, 409, 413, 422)
  x DeniedError              no credential, or not the right one (401, 403)
  x UnavailableError         try again: nobody answers, or too much waits already (429, 503)
  x RunTimeoutError          the run did not end in time; it goes on (408)
  x RunFailedError           a run whose answer was asked for, or that was streamed, has ended without one
ToolError                    a tool says why it has no result; the model reads code, message and hint
AgentError                   an agent in user code says why it has no answer, and whether to ask it again
DeclarationError             a tool, an agent or a network is written in a way that can't be offered

Each class names the reaction that fits it.
"""

from towpath_contracts.problems.input_faults import is_located
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.text import join_sentences

MOST_FAULTS = 3
"""Entries of a problem's `errors` that the text of an exception names; the exception itself has all of them."""


class TowpathError(ProblemError):
    """The platform refused. `code` is stable, `remedy` says what to do about it."""

    def __str__(self) -> str:
        """Return one line with what matters: the last line of a traceback is what people read."""
        return join_sentences(f"{self.problem.code}: {_with_faults(self.problem)}", self.remedy)

    @property
    def code(self) -> str:
        """The stable code of the problem, e.g. `run_not_found`."""
        return self.problem.code

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return self.problem.remedy

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed later."""
        return self.problem.retryable


class NotFoundError(TowpathError):
    """There is no such thing for this credential."""


class RefusedError(TowpathError):
    """The request can't be accepted as it is."""


class DeniedError(TowpathError):
    """The credential is missing or may not do this."""


class UnavailableError(TowpathError):
    """Nobody answers, or too much waits already; try again."""


class RunTimeoutError(TowpathError):
    """The run did not end in time. It goes on and can be fetched by its id."""


class RunFailedError(TowpathError):
    """A run whose answer was asked for, or that was streamed, has ended without one; the text says why."""


class ToolError(Exception):
    """Raised by a tool that has no result: *code* is stable, *message* and *hint* are shown to the model.

    *retryable* says that the same call may succeed later; *external* that the cause lies outside the agent's reach, so
    that it does not count as the agent repeating an error.
    """

    def __init__(
        self, code: str, message: str = "", *, retryable: bool = False, hint: str = "", external: bool = False
    ) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message or code
        self.retryable = retryable
        self.hint = hint
        self.external = external


class AgentError(Exception):
    """Raised by a `BaseAgent` that has no answer: *code* is stable and becomes the reason of the run's end.

    *retryable* says that the same request may succeed in a moment: it is asked three times in all.
    """

    def __init__(self, code: str, message: str = "", *, retryable: bool = False) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code
        self.message = message or code
        self.retryable = retryable


class DeclarationError(TypeError):
    """A tool, an agent or a network is written in a way that can't be offered; the text says where and why."""


def _with_faults(found: Problem) -> str:
    """Return the detail of *found* with the first of its errors, each once, and how many more there are."""
    faults = list(dict.fromkeys((one.detail, one.pointer) for one in found.errors))
    places = [place for fault in faults if (place := _place(found.detail, *fault)) >= 0]
    if not faults or (len(places) == len(faults) and len(faults) <= MOST_FAULTS):
        return found.detail
    start = found.detail[: min(places)] if places else found.detail
    is_placed = is_located(found.detail)  # a file and a line say where, and a pointer would say it again
    told = [
        f"{detail} ({pointer})" if pointer and not (is_placed or is_located(detail)) else detail
        for detail, pointer in faults[:MOST_FAULTS]
    ]
    more = [f"and {len(faults) - MOST_FAULTS} more"] if len(faults) > MOST_FAULTS else []
    return ": ".join(filter(None, (start.rstrip(" .:;"), "; ".join([*told, *more]))))


def _place(said: str, detail: str, pointer: str) -> int:
    """Return where a fault stands in what is *said*, from its pointer on if that is before it; -1 for nowhere."""
    with_pointer = said.find(f"{pointer}: {detail}")
    return with_pointer if with_pointer >= 0 else said.find(detail)


_BY_STATUS: dict[int, type[TowpathError]] = {
    401: DeniedError,
    403: DeniedError,
    404: NotFoundError,
    408: RunTimeoutError,
    429: UnavailableError,
    502: UnavailableError,
    503: UnavailableError,
    504: UnavailableError,
}


def error_from(found: Problem) -> TowpathError:
    """Return *found* as the exception whose class names the reaction."""
    if found.code == "server_unreachable":
        return UnavailableError(found)
    if found.code == "broker_denied":
        return DeniedError(found)
    fallback = RefusedError if 400 <= found.status < 500 else TowpathError
    return _BY_STATUS.get(found.status, fallback)(found)


def unreachable(server: str, detail: str) -> UnavailableError:
    """Return the error for a server that does not answer at all."""
    return UnavailableError(problem("server_unreachable", f"{server}: {detail}"))


def problem_of(error: Exception) -> Problem:
    """Return the problem that *error* carries, or `internal` naming the error where it carries none."""
    carried = getattr(error, "problem", None)
    if isinstance(carried, Problem):
        return carried
    if isinstance(error, FileNotFoundError):
        return problem("file_missing", f"{error.filename} is not there")
    return problem("internal", f"{type(error).__name__}: {error}")
