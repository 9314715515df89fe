"""What is wrong with a network as it is written, as far as that can be told without a platform.

The SDK asks it before anything is sent, and the platform when a network is published: so both use the same words. What
only a platform knows, such as which tools are registered, is checked there alone. Every problem is reported at once,
each with its code.
"""

import re
from collections.abc import Iterable, Iterator

from towpath_contracts.decisions.model_strings import model_fault
from towpath_contracts.json_schema import sub_schemas, unusable_schema
from towpath_contracts.network_checks.swarms import swarm_problems
from towpath_contracts.networks.spec import NetworkSpec
from towpath_contracts.networks.swarm_members import NetworkSwarms, members_by_swarm, with_swarm_defaults
from towpath_contracts.problems.near_names import SUGGESTED, suggest_name
from towpath_contracts.problems.prompt_lines import in_prompt_line
from towpath_contracts.problems.registry import ProblemDetail

PLACEHOLDERS = ("tools", "routes", "agent_key", "tool_history")
"""What a prompt may have in braces; the platform fills it in."""

_NAME_IN_BRACES = re.compile(r"(?<!\{)\{([A-Za-z_][A-Za-z0-9_]*)\}(?!\})")

MAX_NETWORK_SUB_SCHEMAS = 4_000
"""Sub-schemas of the answers of all its agents together: half a second of checking whether they are schemas."""


MAX_PLACEHOLDERS_TOLD = 20
"""Of one network; a prompt may have thousands."""

SHOWN_CHARS = 64
"""Of a word that is no placeholder."""


def check_network(spec: NetworkSpec) -> list[ProblemDetail]:
    """Return every reason why *spec* can't be published that no platform is needed to find."""
    rosters = members_by_swarm(spec)
    return graph_problems(rosters) + swarm_problems(rosters)


def graph_problems(rosters: NetworkSwarms) -> list[ProblemDetail]:
    """Return what is wrong with the agents of a network, beside how they work together as a swarm."""
    spec = with_swarm_defaults(rosters)
    problems = _check_keys(spec) + _check_defaults(spec) + _check_routes(spec, rosters) + _check_respond(spec)
    return problems + list(_check_prompts(spec)) + _check_models(spec) + _check_answers(spec)


def _problem(pointer: str, code: str, detail: str) -> ProblemDetail:
    return ProblemDetail(pointer=pointer, code=code, detail=detail)


def _check_prompts(spec: NetworkSpec) -> Iterator[ProblemDetail]:
    """What is in braces and no placeholder would stand in the prompt as it is, and nobody would see that."""
    told = 0
    for index, agent in enumerate(spec.agents):
        pointer = f"/agents/{index}/prompt_template"
        if agent.prompt_template and not agent.prompt_template.strip():
            yield _problem(pointer, "prompt_empty", f"{agent.key} has a prompt of blanks")
        for line, name in _names_in_braces(agent.prompt_template):
            if name in PLACEHOLDERS or told == MAX_PLACEHOLDERS_TOLD:
                continue
            told += 1
            known = f"; there are {', '.join(map(_in_braces, PLACEHOLDERS))}"
            hint = suggest_name(name, PLACEHOLDERS, shown=_in_braces, otherwise=known) if told <= SUGGESTED else known
            said = f"{_in_braces(name[:SHOWN_CHARS])} is no placeholder{hint}"
            detail = f"{agent.key}: {in_prompt_line(agent.prompt_template, line, said)}"
            yield _problem(pointer, "placeholder_unknown", detail)


def _names_in_braces(prompt: str) -> Iterable[tuple[int, str]]:
    """Return each name in braces with its line; one that stands in a line twice once."""
    found: dict[tuple[int, str], None] = {}
    line, end = 1, 0
    for match in _NAME_IN_BRACES.finditer(prompt):
        line += prompt.count("\n", end, match.start())
        end = match.start()
        found[line, match[1]] = None
    return found


def _in_braces(name: str) -> str:
    return f"{{{name}}}"


def _check_answers(spec: NetworkSpec) -> list[ProblemDetail]:
    """Answers are held against these schemas, so they must be some; none is looked at where they are too many."""
    left = MAX_NETWORK_SUB_SCHEMAS
    for agent in spec.agents:
        left -= sub_schemas(agent.respond_schema or {}, left)
        if left < 0:
            detail = f"the answer schemas of its agents have more than {MAX_NETWORK_SUB_SCHEMAS} sub-schemas together"
            return [_problem("/agents", "network_too_large", detail)]
    return [
        _problem(f"/agents/{index}/respond_schema", "response_schema_invalid", fault)
        for index, agent in enumerate(spec.agents)
        if agent.respond_schema is not None and (fault := unusable_schema(agent.respond_schema))
    ]


def _check_keys(spec: NetworkSpec) -> list[ProblemDetail]:
    seen: set[str] = set()
    problems = []
    for index, agent in enumerate(spec.agents):
        key = agent.key.lower()
        if key in seen:
            problems.append(
                _problem(
                    f"/agents/{index}/key", "agent_duplicate", f"{agent.key} is declared twice; rename one of them"
                )
            )
        seen.add(key)
    return problems


def _check_defaults(spec: NetworkSpec) -> list[ProblemDetail]:
    defaults = [agent.key for agent in spec.agents if agent.is_default]
    if not defaults:
        detail = "no agent begins: write `is_default: true` at the one that does (in Python default=True)"
        return [_problem("/agents", "default_agent_missing", detail)]
    if len(defaults) > 1:
        return [
            _problem(
                "/agents",
                "default_agent_ambiguous",
                f"{len(defaults)} default agents: {', '.join(defaults)}; keep `is_default: true` at the one "
                "that begins (in Python default=True)",
            )
        ]
    return []


def _check_routes(spec: NetworkSpec, rosters: NetworkSwarms) -> list[ProblemDetail]:
    problems = []
    for index, agent in enumerate(spec.agents):
        keys = rosters.agents | rosters.targets(agent.key)
        for route in agent.allowed_routes:
            pointer = f"/agents/{index}/allowed_routes"
            if route == agent.key:
                problems.append(_problem(pointer, "route_to_self", f"{agent.key} routes to itself; take that out"))
            elif route not in keys:
                hint = suggest_name(route, sorted(keys)) if len(problems) < SUGGESTED else ""
                mend = hint or ": add it, or name another"
                detail = f"{agent.key} routes to {route}, which is no agent of this network{mend}"
                problems.append(_problem(pointer, "route_unknown", detail))
    return problems


def _check_respond(spec: NetworkSpec) -> list[ProblemDetail]:
    responders = {agent.key for agent in spec.agents if agent.allow_respond}
    problems = []
    if not responders:
        detail = "no agent may answer: write `allow_respond: true` at those that do (in Python can_respond=True)"
        problems.append(_problem("/agents", "respond_agent_missing", detail))
    else:
        problems += _check_reach(spec, responders)
    forced = spec.force_respond_agent
    if spec.force_respond and forced is not None and forced not in responders:
        problems.append(
            _problem("/force_respond_agent", "force_respond_invalid", f"{forced} is no agent that may respond")
        )
    return problems


def _check_reach(spec: NetworkSpec, responders: set[str]) -> list[ProblemDetail]:
    routes = {agent.key: agent.allowed_routes for agent in spec.agents}
    problems = []
    starts = [agent.key for agent in spec.agents if agent.is_default]
    for start in starts if len(starts) == 1 else ():  # which of several begins is not known yet
        reached, frontier = {start}, [start]
        while frontier:
            for target in routes.get(frontier.pop(), ()):
                if target not in reached:
                    reached.add(target)
                    frontier.append(target)
        if not reached & responders:
            answering = ", ".join(sorted(responders))
            able = ", ".join(sorted(reached))
            detail = (
                f"from {start} no path of routes reaches an agent that may respond: add a route to {answering}, "
                f"or write `allow_respond: true` at one that is reached, {able} (in Python can_respond=True)"
            )
            problems.append(_problem("/agents", "respond_unreachable", detail))
    return problems


def _check_models(spec: NetworkSpec) -> list[ProblemDetail]:
    problems = []
    models = [("/model", spec.model)]
    models += [(f"/fallback_models/{i}", model) for i, model in enumerate(spec.fallback_models)]
    models += [(f"/agents/{i}/model", a.model) for i, a in enumerate(spec.agents) if a.model is not None]
    models += [
        (f"/agents/{i}/fallback_models/{place}", model)
        for i, agent in enumerate(spec.agents)
        for place, model in enumerate(agent.fallback_models)
    ]
    if spec.goal is not None and spec.goal.judge_model is not None:
        models.append(("/goal/judge_model", spec.goal.judge_model))
    for pointer, model in models:
        if fault := model_fault(model):
            problems.append(_problem(pointer, "model_unknown", fault))
    return problems
