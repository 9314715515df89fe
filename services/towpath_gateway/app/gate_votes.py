"""A person's word at a gate, as clients of every protocol say it: by the rules of all words, and about what was shown.

The tool-access service and the orchestrator alone decide whose word counts.
"""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError
from towpath_gateway.app.dependencies import GatewayDependencies
from towpath_gateway.app.routes import gates
from towpath_gateway.core.api_keys import Principal

TOO_LATE = frozenset({"gate_settled", "gate_not_found", "digest_changed"})
"""Refusals of a word that came too late: what is to be decided now is another question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateWord:
    """A verdict and why, on the call that *digest* names; with *args* the call is approved with those arguments.

    Neither is no word: it is left to somebody else.
    """

    gate_id: UUID
    verdict: str = ""
    reason: str = ""
    digest: str | None = None
    args: JsonObject | None = None

    @property
    def says_nothing(self) -> bool:
        """Whether it is no word."""
        return not self.verdict and self.args is None


async def say_word(dependencies: GatewayDependencies, principal: Principal, word: GateWord) -> bool:
    """Say *word* and return whether it counts: one that came too late does not; raises ProblemError where refused."""
    said: dict[str, Any] = {"reason": word.reason, "digest": word.digest}
    try:
        if word.args is not None:
            edit = gates.EditGateBody.model_validate({"args": word.args, **said})
            await gates.edit_gate(word.gate_id, edit, dependencies, principal)
        else:
            vote = gates.ResolveGateBody.model_validate({"verdict": word.verdict, **said})
            await gates.resolve_gate(word.gate_id, vote, dependencies, principal)
    except ProblemError as error:
        if error.problem.code not in TOO_LATE:
            raise
        return False
    return True
