"""Finds the agent that a person names: `module:Class`, or `path/to/file.py:Class`.

What can't be served is refused at the start, with what is wrong and where.
"""

import inspect

from towpath.agents.base import BaseAgent
from towpath.errors import DeclarationError
from towpath.hooks import Hook
from towpath.tools.toolbox import collect, load_module
from towpath_contracts.subjects import DEFAULT_POOL, agent_model, pool_of


def find_agent(target: str) -> tuple[BaseAgent, tuple[Hook, ...]]:
    """Import the module, make the agent, and return it with the hooks of its module.

    Raises DeclarationError where there is no such agent, or it can't be made or named.
    """
    place, separator, name = target.rpartition(":")
    if not separator or not place or not name:
        msg = f"{target!r} is not MODULE:CLASS, e.g. my_agents:Reviewer or agents/reviewer.py:Reviewer"
        raise DeclarationError(msg)
    module = load_module(place)
    agent = _made(getattr(module, name, None), place, name)
    if pool_of(agent_model(agent.name), "default") == DEFAULT_POOL:
        msg = f'{name} needs a name of letters, digits, "_" and "-": name = "reviewer"'
        raise DeclarationError(msg)
    _, hooks = collect([module])
    return agent, tuple(hooks)


def _made(found: object, place: str, name: str) -> BaseAgent:
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
