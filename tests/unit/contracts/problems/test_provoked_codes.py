"""Each problem code is given by the product somewhere, and a test provokes it."""

import re
from collections.abc import Iterable
from pathlib import Path

from tests.support.places import ROOT

from towpath_contracts.problems.registry import REGISTRY

OWN = ROOT / "libs" / "towpath_contracts" / "problems"
"""The registry and its explanations: a code that stands here alone is given by nobody."""


def test_each_code_is_given_by_the_product() -> None:
    product = _together(path for folder in ("libs", "services") for path in (ROOT / folder).rglob("*.py"))
    assert [code for code in REGISTRY if f'"{code}"' not in product] == []


def test_each_code_is_provoked_by_a_test() -> None:
    """A test names a code as the whole of a text, at its beginning as errors say it, or in what it expects to match."""
    tests = _together(path for path in (ROOT / "tests").rglob("test_*.py") if path.name != "test_documented_limits.py")
    named = set(re.findall(r"""["']([a-z]+(?:_[a-z0-9]+)*)(?=["':  ])""", tests))
    named |= {word for text in re.findall(r"""match=[a-z]*["']([^"']*)""", tests) for word in re.findall(r"\w+", text)}
    assert [code for code in REGISTRY if code not in named] == []


def _together(paths: Iterable[Path]) -> str:
    return "\n".join(path.read_text("utf-8") for path in paths if OWN not in path.parents and path != Path(__file__))
