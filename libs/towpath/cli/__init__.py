"""The command line: `towpath …`, one file per group of commands.

Nothing heavy is imported before the command that needs it runs, so that `towpath --help` answers at once. Whatever
came from a model, a tool or a person is printed as plain text, never as markup or terminal codes.
"""

import contextlib
import gc
import sys
from collections.abc import Sequence

_NEW_OBJECTS_BETWEEN_COLLECTIONS = 10_000
"""Instead of 700: imports make many objects and hardly any garbage, and looking for it cost 30 ms of each command."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (see `towpath.cli.shared.exit_codes`)."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words[:1] == ["up"]:
        try:
            from towpath.cli.administration.platform_start import start_platform

            with contextlib.suppress(Exception):  # the command tells what is wrong, as every command does
                start_platform(words[1:])
        except KeyboardInterrupt:
            return 130
    if arguments is None:  # the command's own process
        gc.set_threshold(_NEW_OBJECTS_BETWEEN_COLLECTIONS)
    with contextlib.ExitStack() as stack:
        if words[:1] == ["test"]:
            from towpath.cli.evaluation.project_test_start import started_early

            stack.enter_context(started_early(words[1:]))
        from towpath.cli.app import run

        return run(words)
