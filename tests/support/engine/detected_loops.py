"""What tests of the loop detectors share: steps that succeed or fail, and the loops that were found."""

from typing import Any

from tests.support.engine.machine import Machine, use

from towpath_contracts.events import log as ev

PAGE = {"items": [f"a line with something in it, number {number}" for number in range(6)]}


def call(machine: Machine, decision: dict[str, Any], result: Any = "same") -> None:
    machine.decide(decision)
    for index in range(len(machine.state.calls)):
        machine.finish(index, result=result)


def loops(machine: Machine) -> list[tuple[str, int, str]]:
    return [(event.detector, event.count, event.action) for event in machine.events(ev.LoopDetected)]


def failing(machine: Machine, message: str, **more: Any) -> None:
    number = len(machine.events(ev.DecisionReceived))
    machine.decide(use("echo", text=f"try {number}"))
    machine.fail(message=message, **more)
