"""docs/networks.md names every key of the network file, and no other, and the defaults that there are."""

import re

import pytest
from pydantic import BaseModel
from tests.support.places import ROOT

from towpath_contracts.budgets import Budget
from towpath_contracts.networks.background import BackgroundRunSettings
from towpath_contracts.networks.goal import GoalSettings
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.spec import AgentSpec, NetworkSpec
from towpath_contracts.networks.swarm import SwarmSettings
from towpath_engine.publish.networks import compile_prompt
from towpath_fabric.prompt_templates import VARIABLES

PAGE = (ROOT / "docs" / "networks.md").read_text("utf-8")
SECTIONS: dict[str, type[BaseModel]] = {
    "Network": NetworkSpec,
    "Agent": AgentSpec,
    "goal": GoalSettings,
    "background": BackgroundRunSettings,
    "swarm": SwarmSettings,
    "budget": Budget,
    "model_settings": ModelSettings,
}
IN_WORDS = {"require_evidence", "plan_needs_steps", "max_output_tokens", "reasoning_effort", "max_steps", "allow_words"}
"""Keys whose default is filled in when a run begins, or when a model is asked."""


def rows(section: str) -> dict[str, str]:
    """Return the default of each key of the section's table, as it is written."""
    text = PAGE.split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    found: dict[str, str] = {}
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 3 and cells[0].startswith("`"):
            found |= dict.fromkeys(re.findall(r"`(\w+)`", cells[0]), cells[1])
    return found


@pytest.mark.parametrize("section", SECTIONS)
def test_the_page_has_every_key_and_no_other(section: str) -> None:
    assert sorted(rows(section)) == sorted(SECTIONS[section].model_fields)


@pytest.mark.parametrize("section", SECTIONS)
def test_plain_defaults_are_those_of_the_code(section: str) -> None:
    for name, field in SECTIONS[section].model_fields.items():
        told = rows(section)[name].strip("`")
        if field.is_required():
            assert told == "required", name
        elif isinstance(field.default, bool | int | float) and name not in IN_WORDS:
            assert told == str(field.default).removesuffix(".0").lower(), name


def test_the_page_names_every_word_of_a_template() -> None:
    section = PAGE.split("\n## What a prompt is made of\n", 1)[1].split("\n## ", 1)[0]
    told = re.findall(r"^\| `\{(\w+)\}` \|", section, re.MULTILINE)
    assert [name for name in VARIABLES if compile_prompt(f"{{{name}}}") != f"{{{name}}}"] == sorted(
        told, key=VARIABLES.index
    )
    for name in set(VARIABLES) - set(told):
        assert f"`{{{{ {name} }}}}`" in section, name
