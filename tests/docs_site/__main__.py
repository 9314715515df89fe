"""The pages as a site, and those pages that are made from the code; neither command opens a connection.

python -m tests.docs_site build [FOLDER]    the site, below build/docs-site or FOLDER; ends with 1 for a dead link
python -m tests.docs_site reference         writes the generated pages of docs/reference anew
python -m tests.docs_site blocks            each code block, how it is held, and by what test or for what reason
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.docs_site.block_list import block_table
from tests.docs_site.reference import write_reference
from tests.docs_site.site_build import SiteError, build_site
from tests.docs_site.site_links import site_faults
from tests.support.places import ROOT


def main(words: Sequence[str] | None = None) -> int:
    """Run one command and return how it ends."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.docs_site", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build").add_argument("folder", type=Path, nargs="?", default=ROOT / "build" / "docs-site")
    commands.add_parser("reference")
    commands.add_parser("blocks")
    said = parser.parse_args(words)
    if said.command == "blocks":
        sys.stdout.write(block_table())
        return 0
    if said.command == "reference":
        for path in write_reference():
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")
        return 0
    try:
        first = build_site(said.folder)
    except SiteError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    faults = site_faults(first.parent)
    sys.stdout.write("".join(f"{fault}\n" for fault in faults) or f"{first}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
