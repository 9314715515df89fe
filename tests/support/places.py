"""Where things are in this checkout."""

import os
from pathlib import Path
from typing import Final

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"

IMPORTS_TESTS: Final = {
    "PYTHONPATH": os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH", "")]), str(ROOT)]),
}
"""The environment of a service that has to find `tests`, wherever it is started."""
