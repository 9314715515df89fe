"""`towpath completion`: words, options and choices of every command for the shell, from the commands themselves."""

from pathlib import Path
from typing import Any, Literal

from cyclopts import App

from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions, examples
from towpath.cli.shared.output import Column, print_notice
from towpath_contracts.problems.registry import ProblemError, problem

Shell = Literal["bash", "zsh", "fish"]

app = App(
    name="completion",
    help="Have the shell complete commands, options and choices.",
    help_epilogue=examples("towpath completion install", "towpath completion show --shell bash > towpath.bash"),
)

_STARTED_BY = {"bash": "~/.bashrc", "zsh": "~/.zshrc"}


@app.command(help_epilogue=examples("towpath completion install", "towpath completion install --shell zsh"))
def install(*, shell: Shell | None = None, file: Path | None = None, printed: OutputOptions = OUTPUT_OPTIONS) -> None:
    """Write the completions to where the shell looks for them; it takes a few seconds.

    A line in ~/.bashrc or ~/.zshrc loads them in new shells, but not where a file is named.

    Args:
        shell: bash, zsh or fish; the one that this runs in, where it isn't given.
        file: Write them there instead.
    """
    chosen = shell or _shell()
    print_notice(f"collecting the commands for {chosen} …")
    written = _tree().install_completion(shell=chosen, output=file, add_to_startup=file is None)
    loaded = f"new shells, by a line in {_STARTED_BY[chosen]}" if file is None and chosen in _STARTED_BY else ""
    row = {"shell": chosen, "file": str(written), "loaded_by": loaded or ("new shells" if file is None else "you")}
    printed.out().record(row, (Column("shell", "shell"), Column("file", "file"), Column("loaded by", "loaded_by")))


@app.command(help_epilogue=examples("towpath completion show --shell bash > towpath.bash", "towpath completion show"))
def show(*, shell: Shell | None = None) -> None:
    """Print the completions.

    Args:
        shell: bash, zsh or fish; the one that this runs in, where it isn't given.
    """
    print(_tree().generate_completion(shell=shell or _shell()))


def _tree() -> App:
    from towpath.cli.app import make_app

    return make_app()


def _shell() -> Any:
    from cyclopts.completion.detect import ShellDetectionError, detect_shell

    try:
        found = detect_shell()
    except ShellDetectionError as error:
        raise ProblemError(problem("request_invalid", "which shell this is can't be told", remedy=_NAME_IT)) from error
    if found not in {"bash", "zsh", "fish"}:
        raise ProblemError(problem("request_invalid", f"for {found} there are no completions", remedy=_NAME_IT))
    return found


_NAME_IT = "Name one: --shell bash, zsh or fish."
