"""Causes and examples of problems of networks and swarms, of plans, and of what a project has."""

from towpath_contracts.problems.kind import ProblemExample

NETWORK_EXAMPLES = {
    "network_invalid": ProblemExample(
        "A key of the file is unknown, no agent is the default one or may respond, or a tool or a route leads nowhere. "
        "Each place is named by file and line; by a JSON pointer where no file is known: /agents/0 is the first agent.",
        "network.yaml:9: there is no field 'equipped_tool'; did you mean 'equipped_tools'? → "
        "`equipped_tools: [orders.find]`; try it: `towpath networks validate network.yaml`",
    ),
    "default_agent_missing": ProblemExample(
        "Nobody knows which agent a run begins with.",
        "no agent begins: write `is_default: true` at the one that does (in Python default=True) → `is_default: "
        "true` at triage",
    ),
    "default_agent_ambiguous": ProblemExample(
        "Several agents say that runs begin with them, often since one was copied.",
        "2 default agents: triage, billing; keep `is_default: true` at the one that begins → take it out of billing",
    ),
    "respond_agent_missing": ProblemExample(
        "No agent may end a run with an answer, so every run would go on until its steps are used up.",
        "no agent may answer: write `allow_respond: true` at those that do (in Python can_respond=True) → "
        "`allow_respond: true` at billing",
    ),
    "respond_unreachable": ProblemExample(
        "Some agent may answer, and no chain of allowed_routes leads to it from the one that runs begin with.",
        "from triage no path of routes reaches an agent that may respond: add a route to billing, or write "
        "`allow_respond: true` at one that is reached, triage → `allowed_routes: [billing]` at triage",
    ),
    "route_unknown": ProblemExample(
        "An agent hands over to a key that no agent of the network has: it is misspelt, or the agent was renamed.",
        "triage routes to bililng, which is no agent of this network; did you mean 'billing'? → `allowed_routes: "
        "[billing]`",
    ),
    "route_to_self": ProblemExample(
        "An agent lists itself as one to hand over to.",
        "billing routes to itself; take that out → an agent that goes on uses a tool, and needs no route",
    ),
    "agent_duplicate": ProblemExample(
        "Two agents have the same key; large and small letters are the same there.",
        "billing is declared twice; rename one of them → `key: refunds`",
    ),
    "tool_unknown": ProblemExample(
        "The worker that has the tool never ran in this project, or the name is misspelt.",
        "clerk is equipped with stock.count, which nobody registered: start the worker that has it → `towpath worker "
        "tools.py`; what there is: `towpath tools list`",
    ),
    "prompt_invalid": ProblemExample(
        "A base prompt with a template has a word or a tag in it that none may have, or would grow too large.",
        "line 2 of its prompt_template: there is no variable 'toolz'; did you mean {{ tools }}? → see what a model "
        "would be shown: `towpath networks prompt support`",
    ),
    "placeholder_unknown": ProblemExample(
        "A word in single braces is taken for a placeholder, so that one that is misspelt does not reach the model.",
        "clerk: {toolz} is no placeholder; did you mean {tools}? → {tools}, or { toolz } to have it as text",
    ),
    "prompt_empty": ProblemExample(
        "The prompt of an agent has blanks and line ends alone: a block of YAML was begun and nothing stands in it.",
        "clerk has a prompt of blanks → write one, or leave prompt_template out",
    ),
    "network_too_large": ProblemExample(
        "Prompts and answer schemas are compiled whenever a network is published, and these would take seconds.",
        "the answer schemas of its agents have more than 4000 sub-schemas together → publish it as several networks",
    ),
    "force_respond_invalid": ProblemExample(
        "force_respond_agent names the agent that answers when the steps are used up, and this one may not answer.",
        "triage is no agent that may respond → `force_respond_agent: billing`",
    ),
    "network_reserved": ProblemExample(
        "The platform runs networks of its own, and their names are kept for it.",
        "towpath.help: networks whose names begin with towpath. are the platform's → `name: help`",
    ),
    "network_moved": ProblemExample(
        "You publish over the version that you looked at, and somebody has published another one since.",
        "version 4 is current, not 3 → `towpath networks diff support --from 3 --to 4`, then publish again",
    ),
    "flow_invalid": ProblemExample(
        "A flow has a sign that none has, or stages without >> between them.",
        "'|' outside of parentheses; write a parallel stage as (a | b) → flow: \"(research | check) >> write\"",
    ),
    "flow_cycle": ProblemExample(
        "A member stands in two stages, so its work would depend on itself.",
        "write stands in two stages, which would be a cycle (first in column 1) → a second agent for the second stage",
    ),
    "flow_duplicate": ProblemExample(
        "A member stands twice in one parallel stage; each is started once.",
        "check stands twice in one stage (first in column 2) → (check | research)",
    ),
    "flow_too_long": ProblemExample(
        "A flow has more stages, or a stage more members, than one run carries out.",
        "13 stages; a workflow has at most 12 → a nested swarm for some of them, as one member of this flow",
    ),
    "swarm_empty": ProblemExample(
        "A swarm names neither members nor a flow with any.",
        "the swarm has no members → `members: [writer, checker]`",
    ),
    "swarm_member_unknown": ProblemExample(
        "A member is no agent of the network and no swarm in it, or the flow names who is not in members.",
        "there is no agent or swarm writter; there are writer, checker → `members: [writer, checker]`",
    ),
    "swarm_member_duplicate": ProblemExample(
        "The list of members has a name twice.",
        "writer is named twice → name it once",
    ),
    "swarm_member_unused": ProblemExample(
        "There are members and a flow, and the flow leaves one out, so it would never work.",
        "checker is a member and stands nowhere in the flow → flow: writer >> checker, or take it out of members",
    ),
    "swarm_name_taken": ProblemExample(
        "A nested swarm is called as an agent or another swarm is, and flows name both by that word.",
        "swarm review has the name of agent review → rename one of them",
    ),
    "swarm_lead_invalid": ProblemExample(
        "In a swarm that is no workflow one agent begins, and a swarm or several members stand first.",
        "review is a swarm; an agent begins a team → put the agent that leads first in members",
    ),
    "team_too_small": ProblemExample(
        "The lead of a team hands work to members, and there is none beside it.",
        "the swarm has one member, lead → `members: [lead, writer]`",
    ),
    "team_lead_shared": ProblemExample(
        "The agent that leads a team is a member of another swarm too, where it would not lead.",
        "lead leads the swarm and is a member of swarm review too → an agent of its own for one of them",
    ),
    "delegate_name_invalid": ProblemExample(
        "The lead gets a tool for each member, and its name is taken or too long.",
        "lead is equipped with a tool that is called delegate_to_writer already → rename the member, or your tool",
    ),
    "swarm_cycle": ProblemExample(
        "Nested swarms name one another, so that one stands inside itself.",
        "review in edit in review: a circle → take one of them out of the other's members",
    ),
    "swarm_too_deep": ProblemExample(
        "Each nesting that starts runs of its own puts them one deeper below the first run.",
        "its runs would stand 4 deep; the limit is 3 → name the members of the innermost swarm one level further up",
    ),
    "swarm_too_large": ProblemExample(
        "More agents take part, or more is written of them, than one run can keep in its state.",
        "300 agents take part; the limit is 250 → several networks, one of which starts the others",
    ),
    "handoff_unknown": ProblemExample(
        "An agent of a swarm may hand over to an agent that stands in another swarm, or in none.",
        "writer may hand over to billing, which is no member of its swarm → add billing to members, or take the route"
        " out",
    ),
    "swarm_takes_messages": ProblemExample(
        "The task has a goal or an objective, and the network is a swarm of a kind that answers a message.",
        "newsroom is a swarm (workflow): it takes a message, not a goal → `towpath run newsroom 'Write about …'`",
    ),
    "plan_tools_missing": ProblemExample(
        "An objective makes the agent plan, and it is not equipped with the tools for that.",
        "clerk can't plan: equip it with plan_setup, plan_mark_step and the other plan tools → `equipped_tools: "
        "[plan_setup, plan_mark_step, …]` at clerk",
    ),
    "plan_invalid": ProblemExample(
        "A step of the plan names an agent or a step that there is not, or steps wait for one another.",
        "steps[0].agent_key 'wirter' is not an agent here; agents are: writer, checker → mend it, then `towpath plans"
        " check plan.yaml`",
    ),
    "deliverable_schema_invalid": ProblemExample(
        "The JSON Schema of what an objective is to deliver is none, is too large, or refers to another document.",
        "the schema is nested deeper than 64 levels → move inner parts into $defs",
    ),
    "criterion_invalid": ProblemExample(
        "An acceptance criterion is no expression, or reads what a run does not have.",
        'no tool of the network reports tests: declare one with reports: tests → @tool(reports="tests")',
    ),
    "path_invalid": ProblemExample(
        "A file would stand outside the run's workspace, twice in it, or has letters that are not ASCII.",
        "'/etc/hosts' is absolute; paths are relative to the workspace → notes/hosts",
    ),
    "mount_refused": ProblemExample(
        "A folder to mount is outside of what may be mounted, or has too many, too large or binary files.",
        '/data has 20000 files; the limit is 500 → leave files out: exclude: ["**/*.log"]',
    ),
    "mcp_invalid": ProblemExample(
        "A key of the file of MCP servers is unknown, or a server has neither a command nor a url.",
        "servers.yaml:3: there is no field 'comand'; did you mean 'command'? → mend that line, then `towpath mcp "
        "inspect servers.yaml`",
    ),
    "script_odd": ProblemExample(
        "A file of decisions that the models of a network play can't be read, or names what the network has not. "
        "What it names is only told where --strict is not given: a network is published without its scripts.",
        "no action is called USETOOL; did you mean USE_TOOL? → mend the line of desk.json, then `towpath networks "
        "validate desk.yaml --strict`",
    ),
    "evaluation_invalid": ProblemExample(
        "A case of the suite has a key that there is not, an expression that can't be read, or a name twice.",
        "network is no part of task: a case has input and labels, --model names another model → take it out of the "
        "case; `towpath eval suite.yaml --model openai:gpt-5-mini`",
    ),
    "project_invalid": ProblemExample(
        "towpath.yaml has a key that there is not, or names files that do not exist; or with --strict a file that it "
        "names was refused.",
        "polices.yaml does not exist → `policy: policies.yaml`",
    ),
    "files_exist": ProblemExample(
        "`towpath init` and `towpath new` write nothing over a file that is there.",
        "network.yaml has 'billing' already, in agents → `towpath new agent refunds`",
    ),
    "schema_too_deep": ProblemExample(
        "The parameters of a tool are models inside models, more of them than a checker can go through.",
        "the schema is nested deeper than 64 levels; move inner schemas into $defs → register it again: `towpath "
        "worker tools.py`",
    ),
    "schema_too_costly": ProblemExample(
        "A schema refers to itself in a way that doubles the work at every level, or out of its document.",
        "the schema stands for more than 5000 sub-schemas → tools with fewer parameters each, or `dict` for what is "
        "deepest",
    ),
    "project_tools_full": ProblemExample(
        "Workers have registered so many tools, or such long descriptions, as a project may have; those that no "
        "worker offers any more count too.",
        "default would have 1001 tools with 90000 characters of definitions → `towpath tools list`, then `towpath "
        "tools withdraw NAME --version 1 --reason 'no worker has it'`",
    ),
    "tool_reserved": ProblemExample(
        "A worker offers a tool, or a toolset, by a name that a tool of the platform has.",
        'plan_setup: names, toolset and kind of the platform\'s own tools are taken → @tool(name="shop.plan_setup")',
    ),
}
"""By code."""
