"""The command line: `towpath …`, one file per group of commands.

Nothing heavy is imported before the command that needs it runs, so that `towpath --help` answers at once. Whatever
came from a model, a tool or a person is printed as plain text, never as markup or terminal codes.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (see `towpath.cli.shared.exit_codes`)."""
    from towpath.cli.app import run

    return run(sys.argv[1:] if arguments is None else list(arguments))
