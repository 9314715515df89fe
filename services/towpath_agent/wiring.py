"""Finds the agent that a person names (`module:Class` or `path/to/file.py:Class`) and connects it to the service.

An agent that can't be served is refused at the start, with what is wrong and where.
"""

import inspect
from collections.abc import Sequence

from towpath.agents.base import BaseAgent
from towpath.errors import DeclarationError
from towpath.hooks import Hook
from towpath.toolbox import collect, load_module
from towpath_agent.app.agent_server import AgentServer, AgentServerOptions
from towpath_agent.settings import AgentSettings
from towpath_contracts.subjects import DEFAULT_POOL, agent_model, pool_of
from towpath_fabric.service import Service


def find_agent(target: str) -> tuple[BaseAgent, tuple[Hook, ...]]:
    """Import the module, make the agent, and return it with the hooks of its module.

    Raises DeclarationError where there is no such agent, or it can't be made or named.
    """
    place, separator, name = target.rpartition(":")
    if not separator or not place or not name:
        msg = f"{target!r} is not MODULE:CLASS, e.g. my_agents:Reviewer or agents/reviewer.py:Reviewer"
        raise DeclarationError(msg)
    module = load_module(place)
    agent = _instance(getattr(module, name, None), place, name)
    if pool_of(agent_model(agent.name), "default") == DEFAULT_POOL:
        msg = f'{name} needs a name of letters, digits, "_" and "-": name = "reviewer"'
        raise DeclarationError(msg)
    _, hooks = collect([module])
    return agent, tuple(hooks)


def _instance(found: object, place: str, name: str) -> BaseAgent:
    """Return the agent that stands there, or one of the class that does."""
    if isinstance(found, BaseAgent):
        return found
    if not (inspect.isclass(found) and issubclass(found, BaseAgent)):
        msg = f"{place} has no subclass of BaseAgent named {name}"
        raise DeclarationError(msg)
    missing = sorted(getattr(found, "__abstractmethods__", ()))
    if missing:
        msg = f"{name} does not say how to {', '.join(missing)}"
        raise DeclarationError(msg)
    try:
        return found()
    except TypeError as error:
        msg = f"{name} can't be made without arguments; prepare what it needs in lifespan()"
        raise DeclarationError(msg) from error


def make_agent_server(
    service: Service, settings: AgentSettings, agent: BaseAgent, hooks: Sequence[Hook]
) -> AgentServer:
    """Make the server of *agent* and add it to the service."""
    server = AgentServer(
        service.bus,
        agent,
        options=AgentServerOptions(
            worker=settings.instance, project=settings.project, concurrency=settings.agent_concurrency
        ),
        log=service.log,
        registry=service.registry,
        hooks=hooks,
        telemetry=service.telemetry,
    )
    service.health.check("agent", server.ready)
    service.loop(server.run)
    service.on_stop(server.stop)
    return server
