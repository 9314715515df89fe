"""Hooks: a failing one is contained and reported, and the others are called in order."""

import asyncio
import threading

import pytest
from tests.support.waiting import eventually

from towpath import hooks as hooks_module
from towpath.hooks import Hook, HookEvent, Hooks


async def test_b6_a_hook_that_fails_in_any_way_is_contained_and_the_others_run_in_order() -> None:
    """B6: a failing hook is contained and reported; order is kept."""
    listed: list[str] = []
    failed: list[str] = []

    def hook(number: int, error: BaseException | None) -> Hook:
        async def hear(event: HookEvent) -> None:
            listed.append(f"{number} {event.name}")
            if error is not None:
                raise error

        return Hook("pre_model_call", hear)

    errors = (None, ValueError(), SystemExit(), asyncio.CancelledError(), StopAsyncIteration(), TimeoutError(), None)
    hooks = Hooks([hook(*pair) for pair in enumerate(errors)], lambda _, error: failed.append(type(error).__name__))
    await hooks.notify(HookEvent(name="pre_model_call"))
    assert listed == [f"{number} pre_model_call" for number in range(len(errors))]
    assert failed == [type(error).__name__ for error in errors if error is not None]


async def test_b6_a_plain_hook_that_hangs_is_cut_off_and_not_called_on_top(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks_module, "HOOK_TIMEOUT_S", 0.5)
    free, failed, found = threading.Event(), list[str](), list[str]()

    def hang(event: HookEvent) -> None:
        found.append("hang")
        free.wait(60)

    def stop(event: HookEvent) -> None:
        found.append("stop")
        raise StopIteration

    hooks = Hooks([Hook("start", hang), Hook("start", stop)], lambda _, error: failed.append(type(error).__name__))
    for _ in range(3):
        await hooks.notify(HookEvent(name="start"))
    assert found == ["hang", "stop", "stop", "stop"]
    assert failed == ["TimeoutError", "StopIteration"] * 3
    free.set()
    await eventually(lambda: not any(thread.is_alive() for thread in hooks._cut_off.values()))
    await hooks.notify(HookEvent(name="start"))
    assert found[-2:] == ["hang", "stop"] and failed[-1:] == ["StopIteration"] and len(failed) == 7
