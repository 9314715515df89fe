"""Networks written in Python: the same NetworkSpec as in YAML, with short words.

`to_spec` says what is wrong by the file and line that declare it, before anything is sent: with the checks of the
platform, which adds what only it knows, such as the tools that are registered.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Unpack

from pydantic import BaseModel, ValidationError

from towpath.declared_places import DeclaredPlace, checking_keywords, declared_place
from towpath.errors import DeclarationError, RefusedError
from towpath.foreign_names import AGENT_OPTIONS
from towpath.networks.flows import FlowMember
from towpath.networks.network_keywords import NetworkKeywords, check_network_keywords
from towpath.networks.prompt_files import is_prompt_path, read_prompt_file
from towpath.networks.ways_to_write import Declared, place_problems
from towpath.tools.declaration import AnyTool, Tool
from towpath_contracts.base import JsonObject
from towpath_contracts.budgets import Budget
from towpath_contracts.network_checks.written_models import written_model_problems
from towpath_contracts.networks.model_settings import ModelSettings
from towpath_contracts.networks.spec import AgentSpec, NetworkSpec
from towpath_contracts.problems.given_values import value_at
from towpath_contracts.problems.input_faults import details_of, in_plain_words, summary_of
from towpath_contracts.problems.near_names import name_meant
from towpath_contracts.problems.registry import ProblemDetail, problem


@checking_keywords(AGENT_OPTIONS)
@dataclass(frozen=True, slots=True)
class Agent(FlowMember):
    """One agent. `tools` are names or Tool objects, `routes` the agents that it may hand over to, or their keys.

    `model` may be a list: the next one is asked where the one before is out of service, over its limit or refuses.
    `prompt` is its text, `Path("clerk.md")` for a file beside the program's own, or a function without arguments that
    returns it. A file is read, and a function called, each time the network is built: that is what is published.
    `output` is what its answer must look like: a pydantic model or a JSON Schema. `settings` say how its model is
    asked, such as `{"temperature": 0.2, "reasoning_effort": "low"}`; `budget` is what it may spend in one run, such as
    `Budget(usd=0.5)`.
    """

    key: str
    prompt: str | Path | Callable[[], str] = field(default="", kw_only=True)
    description: str = field(default="", kw_only=True)
    display_name: str = field(default="", kw_only=True)
    agent_type: str = field(default="", kw_only=True)
    model: str | Sequence[str] | None = field(default=None, kw_only=True)
    tools: Sequence["str | AnyTool"] = field(default=(), kw_only=True)
    routes: Sequence["str | Agent"] = field(default=(), kw_only=True)
    default: bool = field(default=False, kw_only=True)
    can_respond: bool = field(default=False, kw_only=True)
    output: type[BaseModel] | JsonObject | None = field(default=None, kw_only=True)
    guidance: str = field(default="", kw_only=True)
    settings: ModelSettings | JsonObject | None = field(default=None, kw_only=True)
    budget: Budget | JsonObject | None = field(default=None, kw_only=True)
    declared_at: DeclaredPlace | None = field(default=None, kw_only=True, repr=False, compare=False)
    """The line that declares it, found by itself."""

    def __post_init__(self) -> None:
        """Raise DeclarationError for a text where a list belongs, and for what is no tool or key in one."""
        place = self.declared_at or declared_place()
        object.__setattr__(self, "declared_at", place)
        where = f"{place}: " if place is not None else ""
        for name, given in (("tools", self.tools), ("routes", self.routes)):
            if isinstance(given, str):
                msg = f"{where}agent {self.key!r}: {name} is a list: write {name}=[{given!r}]"
                raise DeclarationError(msg)
            if wrong := next((text for one in given if (text := _no_member(name, one))), ""):
                msg = f"{where}agent {self.key!r}: {wrong}"
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
            "allowed_routes": [one.key if isinstance(one, Agent) else one for one in self.routes],
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
        if isinstance(self.prompt, Path):
            return read_prompt_file(self.prompt, self.key, self.declared_at)
        text: object = self.prompt()
        if not isinstance(text, str):
            where = f"{self.declared_at}: " if self.declared_at is not None else ""
            found = type(text).__name__
            msg = f"{where}the prompt of agent {self.key!r} has to be a text; its function returned {found}"
            raise DeclarationError(msg)
        return text

    def _settings(self) -> JsonObject:
        given = {"model_settings": self.settings, "budget": self.budget}
        return {
            name: one.model_dump(mode="json") if isinstance(one, BaseModel) else one
            for name, one in given.items()
            if one is not None
        }


def _no_member(name: str, given: object) -> str:
    """Return why *given* can't stand in the `tools` or `routes` of an agent, with what can; empty where it can."""
    if isinstance(given, str):
        return ""
    if name == "routes":
        return "" if isinstance(given, Agent) else f"{given!r} is no agent, nor the key of one"
    if isinstance(given, Tool):
        return ""
    called = getattr(given, "__name__", None)
    return f"{called} is no tool: write @tool above it" if called else f"{given!r} is no tool, nor the name of one"


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
        self.declared_at = declared_place()
        check_network_keywords(limits, str(self.declared_at))
        given: object = agents
        if isinstance(given, str | Agent | AgentSpec):
            shown = repr(given) if isinstance(given, str) else given.key
            msg = f"{self.declared_at}: network {name!r}: agents is a list: write [{shown}]"
            raise DeclarationError(msg)
        self.name = name
        self.agents = tuple(agents)
        self.model = model if isinstance(model, str) else list(model)
        self.limits = limits
        self._places: dict[str, Declared] = {}

    def to_spec(self) -> NetworkSpec:
        """Return the NetworkSpec; raises RefusedError `network_invalid` with every problem, by file and line.

        What only a platform knows, such as which tools are registered, is checked when it is published.
        """
        agents = [one.to_json() if isinstance(one, Agent) else one.model_dump(mode="json") for one in self.agents]
        return self._checked({"agents": agents, **self.limits}, self.agents)

    def _checked(self, written: JsonObject, agents: Sequence[object]) -> NetworkSpec:
        """Return *written* as the NetworkSpec; *agents* declare its agents, in their order."""
        from towpath_contracts.network_checks.network_agents import check_network  # noqa: PLC0415 - brings the schema checks

        places = {"": Declared(self.name, self.declared_at)}
        for place, one in enumerate(agents):
            at = getattr(one, "declared_at", None) or self.declared_at
            places[f"/agents/{place}"] = Declared(getattr(one, "key", ""), at)
        self._places = places
        try:
            spec = spec_from({"name": self.name, "model": self.model, **written})
        except RefusedError as error:
            raise RefusedError(place_problems(error.problem.errors, places)) from None
        if found := check_network(spec):
            raise RefusedError(place_problems(tuple(found), places))
        for one in agents:
            if isinstance(one, Agent) and isinstance(one.prompt, str) and is_prompt_path(one.prompt):
                where = f"{one.declared_at}: " if one.declared_at is not None else ""
                told = f"{where}the prompt of agent {one.key!r} is the words {one.prompt!r}, which name a file"
                warnings.warn(f"{told}; to read it write prompt=Path({one.prompt!r})", stacklevel=3)
        return spec


def place_refusal(network: Network, refused: RefusedError) -> RefusedError:
    """Return the platform's refusal of *network* with the lines that declare what is wrong."""
    found = refused.problem
    if found.code != "network_invalid" or not found.errors:
        return refused
    return RefusedError(place_problems(found.errors, network._places))


def network_of(agent: Agent) -> Network:
    """Return the network of *agent* and the agents that its routes lead to, under its key.

    It begins, and each of them may answer, whatever they say of that. Those that name no model have the first one's.
    """
    agents = [replace(one, default=one is agent, can_respond=True) for one in _reached(agent)]
    network = Network(agent.key, agents) if agent.model is None else Network(agent.key, agents, model=agent.model)
    network.declared_at = agent.declared_at
    return network


def _reached(first: Agent) -> list[Agent]:
    """Return *first* and every agent that stands in the routes of one of them, each once."""
    found = [first]
    for agent in found:  # it grows meanwhile
        found += [one for one in agent.routes if isinstance(one, Agent) and not any(one is other for other in found)]
    return found


def spec_from(written: JsonObject) -> NetworkSpec:
    """Check the form of a network; raises RefusedError `network_invalid` with every problem at once."""
    try:
        return NetworkSpec.model_validate(written)
    except ValidationError as error:
        faults = in_plain_words(details_of(error, NetworkSpec))
        details = (*(_with_name_meant(one, written) for one in faults), *written_model_problems(written))
        raise RefusedError(problem("network_invalid", summary_of(details), errors=details)) from None


def _with_name_meant(fault: ProblemDetail, written: JsonObject) -> ProblemDetail:
    """Return a *fault* of a name with the one that may be meant, and all others as they are."""
    given = value_at(fault.pointer, written)
    if fault.code != "string_pattern_mismatch" or not isinstance(given, str):
        return fault
    return fault.model_copy(update={"detail": f"{fault.detail}{name_meant(given)}"})
