"""Writes the types of the TypeScript client anew, from the gateway's OpenAPI document.

python -m tests.typescript
"""

import sys

from tests.support.places import ROOT
from tests.typescript.declarations import GENERATED, declarations


def main() -> int:
    """Write the file and say where it is."""
    GENERATED.write_text(declarations(), "utf-8")
    sys.stdout.write(f"{GENERATED.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
