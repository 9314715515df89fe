"""Names of other frameworks: who imports one is told what it is here."""

import re

import pytest

import towpath
from towpath import foreign_names
from towpath.networks.network import Agent
from towpath.tasks.task import TaskKeywords
from towpath_contracts.networks.model_settings import ModelSettings


@pytest.mark.parametrize("name", sorted(foreign_names.IMPORTS))
def test_who_imports_a_name_of_another_framework_is_told_what_it_is_here(name: str) -> None:
    with pytest.raises(ImportError, match=f"towpath has no {name}: {re.escape(foreign_names.IMPORTS[name])}"):
        exec(f"from towpath import {name}")


def test_a_name_that_nobody_has_is_no_attribute() -> None:
    assert not hasattr(towpath, "nothing_like_it")
    with pytest.raises(ImportError, match="cannot import name 'nothing_like_it'"):
        exec("from towpath import nothing_like_it")


def test_no_name_is_called_foreign_that_is_one_of_ours() -> None:
    assert not foreign_names.IMPORTS.keys() & set(towpath.__all__)
    assert not foreign_names.AGENT_OPTIONS.keys() & Agent.__dataclass_fields__.keys()
    assert not foreign_names.TASK_OPTIONS.keys() & TaskKeywords.__annotations__.keys()


def test_every_setting_of_a_model_is_said_to_be_one_where_it_is_given_to_an_agent() -> None:
    for name in ModelSettings.model_fields:
        assert f'settings={{"{name}":' in foreign_names.AGENT_OPTIONS[name]
