"""What a client asks of networks, where the answer comes late or is a refusal."""

import re

import pytest
from tests.support.gateway.web import response, web

from towpath import Agent, Client, Network, RefusedError, RunTimeoutError
from towpath_contracts.problems.registry import ProblemDetail, problem

RUN = "0199a0de-0000-7000-8000-000000000001"


async def test_a_decision_that_takes_long_is_answered_with_its_run_before_the_client_gives_up() -> None:
    late = problem("timeout", "the run is waiting after 30 s", run_id=RUN).model_dump_json().encode()
    answer = response(408, late, content_type="application/problem+json")
    async with web(lambda _: answer) as site, Client(site.url(host="127.0.0.1").rstrip("/")) as client:
        with pytest.raises(RunTimeoutError) as error:
            await client.networks.invoke("desk", {"action": "RESPOND"}, agent_key="a")
    assert error.value.problem.run_id == RUN
    (asked,) = site.asked
    assert (asked.path, asked.headers["prefer"]) == ("/v1/networks/desk/invoke", "wait=30")


async def test_what_a_platform_refuses_of_a_network_in_python_is_told_at_the_line_that_declares_it() -> None:
    said = "clerk is equipped with count, which nobody registered"
    fault = ProblemDetail(pointer="/agents/0/equipped_tools", code="tool_unknown", detail=said)
    refusal = problem("network_invalid", f"{fault.pointer}: {said}", errors=(fault,)).model_dump_json().encode()
    answer = response(422, refusal, content_type="application/problem+json")
    clerk = Agent("clerk", tools=["count"], default=True, can_respond=True)
    told = rf"^network_invalid: {re.escape(str(clerk.declared_at))}: {said}\. Correct it, and try again\.$"
    async with web(lambda _: answer) as site, Client(site.url(host="127.0.0.1").rstrip("/")) as client:
        for written in (Network("shop", [clerk]), clerk):
            with pytest.raises(RefusedError, match=told):
                await client.networks.publish(written)
