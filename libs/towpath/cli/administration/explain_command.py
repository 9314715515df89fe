"""`towpath explain CODE` and `towpath version`."""

import difflib
from importlib.metadata import version as installed
from platform import python_version

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions
from towpath.cli.shared.output import Column
from towpath_contracts.problems.examples.problem_examples import EXAMPLES
from towpath_contracts.problems.registry import REGISTRY, ProblemError, problem


def explain(code: str | None = None, /, *, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Explain what a problem code means, how it comes about and what to do; without a code, list them all.

    Args:
        code: A code as an error shows it, such as gate_settled.
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
    if name not in REGISTRY:
        near = difflib.get_close_matches(name, REGISTRY, n=3)
        hint = f"; near it: {', '.join(near)}" if near else ""
        raise ProblemError(
            problem("not_found", f"no problem has the code {code}{hint}", remedy="List every code: towpath explain.")
        )
    more = EXAMPLES[name]._asdict()
    printed.out().record(REGISTRY[name]._asdict() | more, (*columns, *(Column(title, title) for title in more)))


def version(*, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Print the version."""
    row = {"towpath": installed("towpath"), "python": python_version()}
    printed.out().record(row, (Column("towpath", "towpath"), Column("python", "python")))
