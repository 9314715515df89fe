"""A release: its wheel and sdist, built from a commit and checked; nothing here commits, tags or uploads.

    python -m tests.release check [--out FOLDER]         this commit as it is
    python -m tests.release prepare VERSION [--dry-run]  as VERSION, which the changelog gets a section of
    python -m tests.release licences                     what the extras install, with the licence of each

Checked are what the wheel holds, that the sdist gives the same wheel, its page, versions, the licences of dependencies,
and that it installs; with `--extras`, with each extra alone too. Ends with 1 where anything is wrong, and with 2 where
it can't begin. The checkout has to be as it was committed; with `UV_OFFLINE=1` nothing is asked of a network.
"""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, date, datetime
from importlib import metadata
from pathlib import Path

from tests.release.changelog import ChangelogError
from tests.release.dependency_licences import dependencies, licence_list, read_rules
from tests.release.distributions import BuildError
from tests.release.preparation import ReleaseError, check, dependency_faults, exact_version, prepare
from tests.support.places import ROOT


def main(words: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """Run one command on the checkout *root* and return how it ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.release", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    checks, prepares = commands.add_parser("check"), commands.add_parser("prepare")
    commands.add_parser("licences")
    checks.add_argument("--out", type=Path, metavar="FOLDER", help="leave what is published there")
    prepares.add_argument("version")
    prepares.add_argument("--dry-run", action="store_true", help="build and check, and change nothing")
    prepares.add_argument(
        "--day", type=date.fromisoformat, default=datetime.now(UTC).date(), help="today, if not given"
    )
    prepares.add_argument("--out", type=Path, metavar="FOLDER", default=root / "dist")
    for one in (checks, prepares):
        one.add_argument("--extras", action="store_true", help="install the wheel with each extra alone, too")
    said = parser.parse_args(words)
    try:
        if said.command == "licences":
            return _licences()
        if said.command == "check":
            return check(root, said.out, extras=said.extras)
        version = exact_version(said.version)
        return prepare(root, version, said.day, said.out, extras=said.extras, dry_run=said.dry_run)
    except (BuildError, ChangelogError, ReleaseError) as error:
        sys.stderr.write(f"{error}\n")
        return 2


def _licences() -> int:
    packages, _ = dependencies(metadata.distribution("towpath").requires or ())
    for name, licence in licence_list(packages, read_rules()).items():
        sys.stdout.write(f"{name} {packages[name].version}  {licence}\n")
    faults = dependency_faults()
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
