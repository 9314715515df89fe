"""`towpath explain CODE` and `towpath version`."""

import difflib
from importlib.metadata import version as installed
from platform import python_version

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions
from towpath.cli.shared.output import Column
from towpath_contracts.outcomes.outcome_codes import OUTCOMES
from towpath_contracts.problems.examples.problem_examples import EXAMPLES
from towpath_contracts.problems.registry import REGISTRY, ProblemError, problem

_OUTCOME = (
    *(Column("code", "code"), Column("of", "of"), Column("meaning", "meaning", is_whole=True)),
    Column("remedy", "remedy", is_whole=True),
)
"""Of a code that records show, and that refuses no request."""


def explain(code: str | None = None, /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Explain a code: what it means, how it comes about and what to do; without a code, list those of problems.

    Args:
        code: A code as an error, a run or a call shows it, such as gate_settled or max_steps_exceeded.
    """
    columns = (
        Column("code", "code"),
        Column("status", "status"),
        Column("title", "title"),
        Column("remedy", "remedy", is_whole=True),
    )
    kinds = [kind._asdict() for kind in REGISTRY.values()]
    if code is None:
        printed.out().rows("problems", kinds, columns, empty="There are no codes.")
        return
    name = code.removeprefix("urn:towpath:problem:")
    outcome = OUTCOMES.get(name)
    if outcome is not None:
        printed.out().record(outcome._asdict(), _OUTCOME)
        return
    if name not in REGISTRY:
        near = difflib.get_close_matches(name, (*REGISTRY, *OUTCOMES), n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        remedy = f"Explain it: towpath explain {near[0]}; or list every code" if near else "List every code"
        raise ProblemError(
            problem("not_found", f"nothing has the code {code}{hint}", remedy=f"{remedy}: towpath explain.")
        )
    more = EXAMPLES[name]._asdict()
    printed.out().record(REGISTRY[name]._asdict() | more, (*columns, *(Column(title, title) for title in more)))


def version(*, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Print the version."""
    row = {"towpath": installed("towpath"), "python": python_version()}
    printed.out().record(row, (Column("towpath", "towpath"), Column("python", "python")))
