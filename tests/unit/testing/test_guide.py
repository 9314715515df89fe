"""The examples of docs/testing.md, run as they stand there."""

import asyncio
import inspect
import re
from typing import Any

import pytest
from tests.support.places import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs/testing.md").read_text("utf-8"), re.DOTALL)


def examples() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "guide"}
    for block in BLOCKS:
        exec(compile(block, "docs/testing.md", "exec"), names)
    return {name: found for name, found in names.items() if name.startswith("test_")}


@pytest.mark.parametrize("name", sorted(examples()))
def test_an_example_of_the_guide_holds(name: str, request: pytest.FixtureRequest) -> None:
    example = examples()[name]
    given = {parameter: request.getfixturevalue(parameter) for parameter in inspect.signature(example).parameters}
    done = example(**given)
    if inspect.iscoroutine(done):
        asyncio.run(done)


def test_the_guide_has_examples_of_every_form() -> None:
    assert len(examples()) == 4
