"""Fills the references in the `with` and `prompt` of a plan's steps.

Values that are filled in are data: they are not searched for references again, so no agent's answer can read the
answer of another one. The result is bounded however often something is referred to.
"""

from collections.abc import Mapping
from typing import Any

from towpath_contracts.base import JsonObject
from towpath_contracts.canonical import canonical_json
from towpath_contracts.networks.plan import PlanAgentCall
from towpath_contracts.networks.references import Reference, UndefinedReferenceError, split_text
from towpath_engine.reducers.references import text_of

MAX_INPUT = 100_000
"""Characters of what one agent is asked."""


class AgentInputTooLargeError(ValueError):
    """What an agent would be asked is too large."""


class TemplateFiller:
    """Fills the references of one agent's input; counts what it fills in."""

    def __init__(self, scopes: Mapping[str, JsonObject]) -> None:
        self._scopes = scopes
        self._left = MAX_INPUT

    def text(self, template: str) -> str:
        """Fill *template*, a plain message as its text; raises UndefinedReferenceError and AgentInputTooLargeError."""
        return "".join(
            self._counted(text_of(self._filled(piece.reference, piece.text, piece.fault)))
            for piece in split_text(template)
        )

    def value(self, template: Any) -> Any:
        """Fill every text inside *template*; one that is a whole reference keeps the type of what it refers to."""
        if isinstance(template, str):
            only = list(split_text(template.strip()))
            if len(only) == 1 and only[0].reference is not None:
                found = self._filled(only[0].reference)
                self._counted(canonical_json(found))
                return found
            return self.text(template)
        if isinstance(template, dict):
            return {self._counted(name): self.value(part) for name, part in template.items()}
        if isinstance(template, list | tuple):
            return [self.value(part) for part in template]
        return template

    def _filled(self, reference: Reference | None, text: str = "", fault: str = "") -> Any:
        if fault:
            raise UndefinedReferenceError(fault)
        return text if reference is None else reference.value_in(self._scopes[reference.root])

    def _counted(self, text: str) -> str:
        self._left -= len(text)
        if self._left < 0:
            msg = f"what the agent is asked has more than {MAX_INPUT} characters"
            raise AgentInputTooLargeError(msg)
        return text


def render_input(call: PlanAgentCall, scopes: Mapping[str, JsonObject], otherwise: str) -> str:
    """Return what the agent of *call* is asked: its prompt, then its `with` as JSON; *otherwise* where it has neither.

    Raises UndefinedReferenceError and AgentInputTooLargeError.
    """
    templates = TemplateFiller(scopes)
    parts = [templates.text(call.prompt)] if call.prompt else []
    if call.with_:
        parts.append(canonical_json(templates.value(call.with_)))
    asked = "\n\n".join(parts) if parts else otherwise
    if len(asked) > MAX_INPUT:
        msg = f"what the agent is asked has {len(asked)} characters; the limit is {MAX_INPUT}"
        raise AgentInputTooLargeError(msg)
    return asked
