"""Networks written in Python: the same NetworkSpec as in YAML, with short words.

A builder only builds; whether a network makes sense is checked once, by the platform that publishes it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Unpack

from pydantic import BaseModel, ValidationError

from towpath.errors import DeclarationError, RefusedError
from towpath.networks.flows import FlowMember
from towpath.networks.network_keywords import NetworkKeywords
from towpath.tools.declaration import AnyTool, Tool
from towpath_contracts.base import JsonObject
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.spec import AgentSpec, NetworkSpec
from towpath_contracts.problems.input_faults import details_of, summary_of
from towpath_contracts.problems.registry import problem


@dataclass(frozen=True, slots=True)
class Agent(FlowMember):
    """One agent. `tools` are names or Tool objects, `routes` the keys of agents it may hand over to.

    `model` may be a list: the next one is asked where the one before is out of service, over its limit or refuses.
    `prompt` is its text, or a function without arguments that returns it: it is called each time the network is built,
    so what it returns is what is published. `output` is what its answer must look like: a pydantic model or a JSON
    Schema. `settings` say how its model is asked, such as `{"temperature": 0.2, "reasoning_effort": "low"}`.
    """

    key: str
    prompt: str | Callable[[], str] = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)
    display_name: str = field(default="", kw_only=True)
    agent_type: str = field(default="", kw_only=True)
    model: str | Sequence[str] | None = field(default=None, kw_only=True)
    tools: Sequence["str | AnyTool"] = field(default=(), kw_only=True)
    routes: Sequence[str] = field(default=(), kw_only=True)
    default: bool = field(default=False, kw_only=True)
    can_respond: bool = field(default=False, kw_only=True)
    output: type[BaseModel] | JsonObject | None = field(default=None, kw_only=True)
    guidance: str = field(default="", kw_only=True)
    settings: ModelSettings | JsonObject | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Raise DeclarationError for a text where a list belongs: it would be read letter by letter."""
        for name, given in (("tools", self.tools), ("routes", self.routes)):
            if isinstance(given, str):
                msg = f"agent {self.key!r}: {name} is a list: write {name}=[{given!r}]"
                raise DeclarationError(msg)

    @property
    def flow_name(self) -> str:
        """The name that stands in a flow."""
        return self.key

    def to_json(self) -> JsonObject:
        """Return the agent as NetworkSpec writes it."""
        output = self.output.model_json_schema() if isinstance(self.output, type) else self.output
        return {
            "key": self.key,
            "display_name": self.display_name,
            "description": self.description,
            "agent_type": self.agent_type,
            "prompt_template": self._prompt(),
            "model": self.model if self.model is None or isinstance(self.model, str) else list(self.model),
            "equipped_tools": [one.name if isinstance(one, Tool) else one for one in self.tools],
            "allowed_routes": list(self.routes),
            "is_default": self.default,
            "allow_respond": self.can_respond,
            "respond_schema": output,
            "respond_guidance": self.guidance,
            **self._settings(),
        }

    def _prompt(self) -> str:
        """Return the text of the prompt; raises DeclarationError where a function returns none."""
        if isinstance(self.prompt, str):
            return self.prompt
        text: object = self.prompt()
        if not isinstance(text, str):
            msg = f"the prompt of agent {self.key!r} has to be a text; its function returned {type(text).__name__}"
            raise DeclarationError(msg)
        return text

    def _settings(self) -> JsonObject:
        given = self.settings
        if given is None:
            return {}
        return {"model_settings": given.model_dump(mode="json") if isinstance(given, ModelSettings) else given}


class Network:
    """A network of agents; `Network("support", [triage, billing], model="gemini:gemini-2.5-flash", max_steps=20)`.

    *limits* are NetworkKeywords.
    """

    def __init__(
        self,
        name: str,
        agents: Iterable[Agent | AgentSpec],
        *,
        model: str | Sequence[str] = "scripted:task",
        **limits: Unpack[NetworkKeywords],
    ) -> None:
        self.name = name
        self.agents = tuple(agents)
        self.model = model if isinstance(model, str) else list(model)
        self.limits = limits

    def to_spec(self) -> NetworkSpec:
        """Return the NetworkSpec; raises RefusedError `network_invalid` with every problem of form."""
        agents = [one.to_json() if isinstance(one, Agent) else one.model_dump(mode="json") for one in self.agents]
        return spec_from({"name": self.name, "model": self.model, "agents": agents, **self.limits})


def network_of(agent: Agent) -> Network:
    """Return the network of *agent* alone, under its key: it begins and answers, whatever it says of that."""
    alone = replace(agent, default=True, can_respond=True)
    return Network(agent.key, [alone]) if agent.model is None else Network(agent.key, [alone], model=agent.model)


def spec_from(written: JsonObject) -> NetworkSpec:
    """Check the form of a network; raises RefusedError `network_invalid` with every problem at once."""
    try:
        return NetworkSpec.model_validate(written)
    except ValidationError as error:
        details = details_of(error, NetworkSpec)
        raise RefusedError(problem("network_invalid", summary_of(details), errors=details)) from error
