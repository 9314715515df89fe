"""A world in which people also pause the run, let it go on, put gates on it and tell it things, at any moment."""

from dataclasses import dataclass
from uuid import UUID

from tests.support.engine.fact_families import FamilyWorld
from tests.support.engine.machine import RUN

from towpath_contracts import facts


@dataclass
class SteeredWorld(FamilyWorld):
    """`acts` counts what people did; an act may be delivered late, again, and after many others."""

    acts: int = 0

    def turn(self) -> None:
        """Let one thing happen; before it, somebody may do something to the run."""
        if not self.calm and not self.machine.state.is_final and self.chance.happens(15):
            self._act()
        super().turn()

    def _act(self) -> None:
        self.acts += 1
        act = self.chance.pick(("pause", "pause", "note", "gate", "confidence"))
        body = {"run_id": RUN, "act": act, "act_id": UUID(int=self.acts), "by": "ann", "text": f"act {self.acts}"}
        fact = facts.RunSteeredFact.model_validate(body)
        if self.chance.happens(70):
            self.feed(fact, 0.1)
        else:
            self.inbox.append(fact)

    def _people(self) -> None:
        for gate in self.machine.state.gates:
            if gate.gate_type == "run_paused" and self.chance.happens(60):
                told = {"run_id": RUN, "gate_id": gate.gate_id, "verdict": "resumed", "by": "ann"}
                self.inbox.append(facts.GateResolvedFact.model_validate(told))
        super()._people()
