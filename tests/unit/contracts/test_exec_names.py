"""Where the calls of a project's toolset wait: no two pairs of names may share a subject or a consumer."""

import re
from itertools import product

from towpath_contracts.streams import exec_consumer
from towpath_contracts.subjects import TOOL_EXEC_ALL, tool_exec

NAMES = ("a", "a_b", "b", "a-b", "b_c", "c", "exec", "exec_a", "A", "a_")


def test_every_project_and_toolset_has_a_queue_of_its_own() -> None:
    specs = [exec_consumer(project, toolset) for project, toolset in product(NAMES, NAMES)]
    assert len({spec.durable for spec in specs}) == len({spec.filter_subject for spec in specs}) == len(specs)


def test_names_are_such_as_the_broker_takes() -> None:
    for project, toolset in product(NAMES, NAMES):
        assert re.fullmatch(r"[A-Za-z0-9_=-]+", exec_consumer(project, toolset).durable)
        assert tool_exec(project, toolset).count(".") == TOOL_EXEC_ALL.count(".")
    longest = exec_consumer("p" * 64, "t" * 64).durable
    assert len(longest) <= 255, "a folder of the broker has this name"
