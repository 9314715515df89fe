"""How many tools may wait for a person, as it is counted at the start of a platform."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar

import pytest

from towpath_embedded.terminal.own_gateway import asked_tools, tools_that_may_wait

RULES = [{"name": "ask", "effect": "require_approval"}, {"name": "may", "effect": "allow"}]
PERMISSIONS = [
    {"tool": "pay", "verdict": "allow", "conditional": True, "rules": ["may", "ask"]},
    {"tool": "read", "verdict": "allow", "rules": ["may"]},
    {"tool": "wipe", "verdict": "deny", "rules": ["ask", "never"]},
    {"tool": "mail", "verdict": "require_approval", "rules": ["ask"]},
]


def test_tools_count_that_an_asking_rule_reaches_with_or_without_a_condition() -> None:
    assert asked_tools({"pay", "read", "wipe", "mail"}, PERMISSIONS, {"ask"}) == {"pay", "mail"}
    assert asked_tools({"pay", "read"}, PERMISSIONS, {"ask"}) == {"pay"}, "mail is no tool of this agent"
    assert asked_tools({"pay"}, PERMISSIONS, {"other"}) == set()


class Gateway(BaseHTTPRequestHandler):
    """Answers as the platform's own gateway; notes which paths were asked for."""

    asked: ClassVar[list[str]] = []
    rules: ClassVar[list[dict[str, Any]]] = RULES

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        answer = {"rules": type(self).rules} if self.path == "/v1/policy" else {"permissions": PERMISSIONS}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that it has there
        """Say nothing."""


@pytest.fixture
def gateway() -> Iterator[str]:
    """The address of such a gateway."""
    Gateway.asked, Gateway.rules = [], RULES
    with ThreadingHTTPServer(("127.0.0.1", 0), Gateway) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def network(agents: int, *tools: str) -> dict[str, Any]:
    each = [{"key": f"a{number}", "agent_type": "clerk", "equipped_tools": [*tools]} for number in range(agents)]
    return {"name": "shop/desk", "agents": each}


async def test_every_agent_is_asked_about_and_each_tool_counts_once(gateway: str) -> None:
    assert await tools_that_may_wait(gateway, [network(2, "pay", "mail", "read"), network(1, "pay")]) == 2
    assert Gateway.asked[:2] == ["/v1/policy", "/v1/permissions/shop/desk/a0?agent_type=clerk"]
    assert len(Gateway.asked) == 4


async def test_nothing_more_is_asked_where_no_rule_asks_or_there_are_too_many_agents(gateway: str) -> None:
    assert await tools_that_may_wait(gateway, [network(50, "pay")]) == 1 and len(Gateway.asked) == 51
    assert await tools_that_may_wait(gateway, [network(51, "pay")]) is None and len(Gateway.asked) == 51
    Gateway.rules = RULES[1:]
    assert await tools_that_may_wait(gateway, [network(2, "pay")]) == 0 and len(Gateway.asked) == 52


async def test_no_number_is_told_where_nobody_answers() -> None:
    assert await tools_that_may_wait("http://127.0.0.1:9", [network(1, "pay")]) is None
