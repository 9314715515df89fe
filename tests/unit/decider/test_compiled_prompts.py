"""Costly prompts of one project hold up no decision of another; small ones are compiled at once."""

import asyncio
from time import thread_time
from typing import Any

import pytest
from tests.support.decider.decisions import RESPOND, as_text, context, request

from towpath_contracts.decisions.request import Usage
from towpath_contracts.problems.registry import ProblemError
from towpath_decider.app import compile_caches
from towpath_decider.app.compile_caches import MAX_WAITING_OF_PROJECT, PromptTemplateCache
from towpath_decider.app.decision_service import DecisionMaker
from towpath_decider.core.conversation import ModelCallFailure, ModelQuestion, ModelReply
from towpath_decider.core.usage import NOTHING
from towpath_fabric.prompt_templates import PromptInvalidError, compile_base_prompt
from towpath_fabric.request_loop import PlatformUnavailableError

COSTLY = "{% if tools %}x{{agent_key|upper}}{% else %}y{% endif %}" * 380
"""About as many tokens as a network may have."""

SMALL = "You are {agent_key}.\n{{ tools }}"


class Model:
    """Answers at once."""

    def offers_tools(self, _request: Any) -> bool:
        return False

    async def complete(self, _request: Any, _question: ModelQuestion, _hear: Any) -> ModelReply | ModelCallFailure:
        return ModelReply(text=as_text(RESPOND), usage=Usage(), cost=NOTHING)

    async def close(self) -> None:
        """Nothing is open."""


def asked(project: str, prompt: str) -> Any:
    return request(model="scripted:task", project=project, context=context(base_prompt=prompt))


async def test_a_costly_prompt_of_one_project_holds_up_no_decision_of_another() -> None:
    began = thread_time()
    compile_base_prompt(COSTLY)
    one, maker, longest = thread_time() - began, DecisionMaker({"scripted": Model()}), 0.0
    costly = asyncio.gather(*(maker.answer(asked("greedy", f"{COSTLY}{place}")) for place in range(4)))
    while not costly.done():
        began = thread_time()
        await asyncio.sleep(0.001)  # the request arrives
        await maker.answer(asked("other", SMALL))
        longest = max(longest, thread_time() - began)
    assert {type(one.fact).__name__ for one in await costly} == {"DecisionMadeFact"}
    assert longest < 2 * one, "on the event loop all four would come first"


async def test_a_costly_prompt_is_compiled_once_for_all_that_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_really = compile_caches.compile_base_prompt

    def count(text: str) -> Any:
        compiled.append(text)
        return compile_really(text)

    monkeypatch.setattr(compile_caches, "compile_base_prompt", count)
    cache = PromptTemplateCache()
    assert cache.find(COSTLY) is None
    found = await asyncio.gather(*(cache.compile("p", COSTLY) for _ in range(MAX_WAITING_OF_PROJECT)))
    assert len({id(one) for one in found}) == 1
    assert cache.find(COSTLY) is found[0]
    assert cache.find(SMALL) is cache.find(SMALL)
    assert compiled == [COSTLY, SMALL]


async def test_a_project_has_few_places_to_wait_and_its_other_decisions_come_again_later() -> None:
    maker = DecisionMaker({"scripted": Model()})
    many = MAX_WAITING_OF_PROJECT + 3
    doing = [asyncio.create_task(maker.answer(asked("greedy", f"{COSTLY}{place}"))) for place in range(many)]
    await asyncio.sleep(0.05)
    assert [type(task.exception()) for task in doing if task.done()] == [PlatformUnavailableError] * 3
    with pytest.raises(ProblemError, match="wait for prompts to be compiled"):
        await maker.prompt_of("greedy", context(base_prompt=COSTLY))
    await asyncio.gather(*doing, return_exceptions=True)
    assert (await maker.answer(asked("greedy", f"{COSTLY}{many}"))).fact.type == "decision.made"


async def test_a_costly_prompt_that_is_none_is_refused_and_not_kept() -> None:
    cache = PromptTemplateCache()
    for _ in range(2):
        with pytest.raises(PromptInvalidError):
            await cache.compile("p", COSTLY + "{{ password }}")
    assert cache.find(COSTLY + "{{ password }}") is None


async def test_who_gives_up_waiting_leaves_the_compilation_to_others() -> None:
    cache = PromptTemplateCache()
    first, second = (asyncio.create_task(cache.compile("p", COSTLY)) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    assert (await second).size == len(COSTLY)
