"""Rows of the problem registry: why a network, or a swarm, can't be published or run; names of the platform."""

from towpath_contracts.problems.kind import ProblemKind

NETWORK_PROBLEMS = (
    ProblemKind(
        "network_invalid", 422, "The network can't be published", "Correct each place that is named, and try again."
    ),
    ProblemKind(
        "script_odd",
        422,
        "A script beside the network is not as models play it",
        "Correct the script at the line that is named.",
    ),
    ProblemKind("default_agent_missing", 422, "No default agent", "Set is_default on exactly one agent."),
    ProblemKind("default_agent_ambiguous", 422, "More than one default agent", "Keep is_default on one agent only."),
    ProblemKind("respond_agent_missing", 422, "No agent may respond", "Set allow_respond on at least one agent."),
    ProblemKind(
        "respond_unreachable",
        422,
        "No path from the default agent to one that may respond",
        "Add a route, or allow_respond nearer to the default agent.",
    ),
    ProblemKind("route_unknown", 422, "A route leads to an unknown agent", "Name an agent of this network."),
    ProblemKind(
        "route_to_self", 422, "An agent routes to itself", "Remove the route; an agent keeps control by using tools."
    ),
    ProblemKind("agent_duplicate", 422, "Two agents have one key", "Rename one of them."),
    ProblemKind(
        "tool_unknown", 422, "An equipped tool is not registered", "Start its worker first: towpath worker MODULE."
    ),
    ProblemKind(
        "prompt_invalid", 422, "A prompt template can't be compiled", "Correct the template at the place in detail."
    ),
    ProblemKind(
        "placeholder_unknown",
        422,
        "A prompt has in braces what is no placeholder",
        "Correct the word; to have it as text, put blanks inside the braces: { word }.",
    ),
    ProblemKind("prompt_empty", 422, "A prompt has only blanks", "Write one, or leave prompt_template out."),
    ProblemKind(
        "network_too_large",
        422,
        "The prompts or answer schemas of a network take too long to be checked",
        "Split the network, or have fewer tags in its prompts and fewer properties in its schemas.",
    ),
    ProblemKind(
        "force_respond_invalid",
        422,
        "force_respond names no agent that may respond",
        "Name an agent with allow_respond.",
    ),
    ProblemKind("network_reserved", 422, "The name belongs to a network of the platform", "Give yours another name."),
    ProblemKind(
        "actor_reserved",
        422,
        "The name belongs to an actor of the platform",
        "Choose another name, such as a person's or an application's: records name it as who acted.",
    ),
    ProblemKind(
        "network_moved",
        409,
        "Another version of the network is current",
        "Look at what was published meanwhile: towpath networks show NETWORK.",
    ),
    ProblemKind("flow_invalid", 422, "The flow can't be read", "Write stages as a >> b and (a | b) >> c."),
    ProblemKind("flow_cycle", 422, "A member stands in two stages", "Name every member once: a flow goes one way."),
    ProblemKind("flow_duplicate", 422, "A member stands twice in a stage", "Name every member once."),
    ProblemKind("flow_too_long", 422, "The flow is too long", "Put some of its stages into a nested swarm."),
    ProblemKind("swarm_empty", 422, "The swarm has no members", "Name agents, or nested swarms, as its members."),
    ProblemKind("swarm_member_unknown", 422, "No such member", "Name an agent of this network, or one of its swarms."),
    ProblemKind("swarm_member_duplicate", 422, "A member is named twice", "Name every member once."),
    ProblemKind("swarm_member_unused", 422, "The flow leaves a member out", "Put it into the flow, or leave it out."),
    ProblemKind("swarm_name_taken", 422, "A name is used twice", "Agents and swarms share their names: rename one."),
    ProblemKind("swarm_lead_invalid", 422, "No agent leads the swarm", "Begin with one agent: it leads."),
    ProblemKind("team_too_small", 422, "A team has at least two members", "Add a member to delegate to."),
    ProblemKind("team_lead_shared", 422, "A team's lead belongs to its team alone", "Let another agent lead it."),
    ProblemKind("delegate_name_invalid", 422, "A delegate's tool has no free name", "Rename the member or the tool."),
    ProblemKind("swarm_cycle", 422, "A swarm is a member of itself", "Take it out of its own members."),
    ProblemKind("swarm_too_deep", 422, "Swarms are nested too deeply", "Runs stand at most 3 deep: nest less."),
    ProblemKind("swarm_too_large", 422, "The swarm is too large", "Make several networks of it."),
    ProblemKind("handoff_unknown", 422, "A handoff leads out of the swarm", "Name a member in allowed_routes."),
    ProblemKind(
        "swarm_takes_messages",
        422,
        "The network is a swarm",
        "Give it a user_message. A goal is for a team or a network without swarm, an objective for one without swarm.",
    ),
)
