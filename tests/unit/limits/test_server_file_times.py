"""A file of MCP servers is taken with the longest times that it may name, and refused with longer ones."""

import pytest
from pydantic import ValidationError
from tests.support.documented_limits import promise

from towpath.project.mcp_servers import ServerConfig, ToolOverride

HOUR_S, DAY_S = 3_600, 86_400
TAKEN = [
    ({"timeout": 0.001}, {"timeout": 0}),
    ({"timeout": HOUR_S}, {"timeout": HOUR_S + 1}),
    ({"start_timeout": 0.001}, {"start_timeout": 0}),
    ({"start_timeout": 10 * 60}, {"start_timeout": 10 * 60 + 1}),
    ({"recheck": 0}, {"recheck": -0.001}),
    ({"recheck": DAY_S}, {"recheck": DAY_S + 1}),
    ({"tools": {"a": {"timeout": 0.001}}}, {"tools": {"a": {"timeout": 0}}}),
    ({"tools": {"a": {"timeout": "60m"}}}, {"tools": {"a": {"timeout": "61m"}}}),
]


@pytest.mark.parametrize(("taken", "refused"), TAKEN)
def test_a_time_at_its_bound_is_taken_and_one_beyond_it_refused(taken: dict[str, object], refused: object) -> None:
    ServerConfig.model_validate({"command": "serve", **taken})
    assert isinstance(refused, dict)
    with pytest.raises(ValidationError, match=next(iter(refused))):
        ServerConfig.model_validate({"command": "serve", **refused})


def test_a_server_that_says_nothing_has_the_times_and_the_size_of_the_page() -> None:
    server = ServerConfig(command="serve")
    assert promise("mcp.md", "connecting and listing | {} s, {} s |", server.timeout, server.start_timeout).holds
    assert promise("mcp.md", "0 asks before every call | {} s |", server.recheck).holds
    assert promise("mcp.md", "travels as a blob | {} MiB |", server.max_output_bytes / 1024**2).holds


def test_a_tool_that_the_file_does_not_name_counts_as_the_strictest() -> None:
    assert promise("mcp.md", "`summary`, `timeout` | the strictest |").holds
    tool = ToolOverride()
    assert tool.effect_class == "irreversible"
    assert not (tool.trusted_output or tool.polling or tool.reports)
