"""Prompts about goals, objectives and assessments, beside the texts of every run.

What a caller wrote and what tools returned stands between fences like everywhere in a prompt. The platform's own words
are fixed texts: the same context always renders the same prompt.
"""

import hashlib
from collections.abc import Sequence

from pydantic_core import to_json

from towpath_contracts.base import JsonObject
from towpath_contracts.decisions.decision import PLAIN_KINDS
from towpath_contracts.decisions.earlier_turns import FIRST_TURNS
from towpath_contracts.decisions.request import DecisionKind

MARK_CHARS = 16
"""64 bits of digest: a text that holds its own mark can't be found by trying."""

SECTION_CHARS = 60_000
"""The longest section of a run's snapshot; what is above is cut, since a prompt must fit its model."""

_TITLES = {
    "goal": "Goal",
    "acceptance_criteria": "Acceptance criteria (the platform checks them itself)",
    "constraints": "Constraints of the goal",
    "progress": "Progress so far, 0 to 1",
    "objective": "Objective",
    "context_sections": "What the caller adds",
    "deliverable_schema": "JSON Schema of the deliverable",
    "plan": "Plan",
    "workspace": "Workspace",
    "last_calls": "Last tool calls",
    "last_steps": "Last steps",
    "reflections": "What was found by reflection",
    "conversation": "The conversation so far: what agents said and did before you took over",
    "calls": "The calls that are to be judged",
    "earlier_turns": "Turns to summarize, oldest first",
    "error": "What went wrong",
    "evidence": "What can be named as evidence",
    "text_criteria": "The numbers of the criteria that are texts",
    "agents": "Who can be asked",
    "bindings": "What is bound already: {{ bindings.NAME }}",
    "faults": "What was wrong with the last plan; mend all of it",
    "tried": "Actions that were tried and must not be repeated",
}

CALLER_SECTIONS = ("goal", "acceptance_criteria", "constraints", "objective", "context_sections")
"""Sections that the caller wrote: they say what is wanted, all others are data."""

LASTING_SECTIONS = frozenset(
    {"goal", "constraints", "objective", "context_sections", "deliverable_schema", "conversation"}
)
"""Sections that stay as they are while an agent is at work."""

_RULES = {
    "goal": """# How a goal is reached
- Take one action at a time; every step is validated against what really happened.
- After a failure take a different action: the same one with the same arguments is refused.
- The platform checks the acceptance criteria itself. RESPOND only claims that they are met; it is not believed.
- Say so where you are not sure: a person can help.""",
    "background": """# How the objective is pursued
- Be terse. Write ASCII only. Serve the objective and nothing else.
- Plan first: while no plan is active, your next action sets one up with the plan tools. Mark its steps as you go.
- The scratchpad in the context is the current snapshot of the run: plan, last calls, workspace. Rely on it alone.
- Files are in the workspace and are reached through its tools alone; paths of a host do not exist here.
- RESPOND is the final report and ends the work: give it only once no step of the plan is left.""",
}

_REPLAN = """# Another attempt
The last action of this step failed, or was refused. Propose a different action: another tool, or other arguments. \
An action that was tried before is refused."""

_TASKS = {
    DecisionKind.VALIDATE: """# Task: validate the last step
Judge from the recorded results whether the last action did what it was for, and nothing else. Words are no evidence: \
neither the reasoning behind the action nor a result that calls itself a success. For each acceptance criterion that \
is a text, say by its number whether the record shows that it is met; what the record does not show is not met. In \
evidence name what shows it, as it is listed: the execution id of a call, an artifact or a file. Without that it does \
not count as met. Set uncertain where the record does not let you tell.""",
    DecisionKind.CONFIDENCE: """# Task: say how sure you are
From the last steps, say how probable it is that the goal is reached on this way: 0 is hopeless, 1 is certain. \
Repeated failures, steps that change nothing, and guesses lower it. A person is asked when it is low.""",
    DecisionKind.PROGRESS: """# Task: measure progress
Say how much of the goal is reached, from 0 to 1, by what the record shows and not by how much was tried. Answer null \
where the record does not let you tell. Where you say 1, name in evidence what shows it, as it is listed: the \
execution id of a call, an artifact or a file; without that it counts as less.""",
    DecisionKind.REFLECT: """# Task: reflect
Look at what just happened and say how to go on. Be terse, write ASCII only.
- continue: go on as planned
- retry: try the failed action again with other parameters; say which in note
- reset_plan: the plan can't lead to the objective; say why in rationale
- abandon: the objective can't be reached; say why in rationale
- complete: nothing is left to do, and the record shows it""",
    DecisionKind.SUMMARIZE: """# Task: the final summary
The run is over. Say in summary what was reached, what was found and what is left, from the record alone. Be terse, \
write ASCII only. Where the work was abandoned, give the reason in rationale. Where a deliverable is asked for, fill \
it from the record.""",
    DecisionKind.COMPILE_PLAN: """# Task: write a plan
Write the plan that does what user_message says, with the agents that can be asked, and nothing else. A step asks one \
agent, or several at the same time (parallel) where none needs what another finds. Say in prompt all that the agent \
must know: it sees nothing else. What an earlier step found is written as {{ result.KEY }}, or {{ result.KEY.field }}, \
where KEY is the result_key of that agent. Use as few steps as will do.""",
}

_SUMMARIZE_TURNS = """# Task: summarize earlier turns
These turns of the conversation will be shown no more; the summary takes their place. Say in summary what was asked, \
answered, found and agreed in them, who said it, and what is still open, with the names, numbers and addresses that \
matter. Add nothing, and carry nothing out. Be brief; leave deliverable out."""

_JUDGED = "# What is to be judged"

_ACTIONS = """## ABANDON: give the work up
{"action": "ABANDON", "action_reasoning": "…", "action_details": {"rationale": "why it can't be done"}}

## REQUEST_GATE: ask a person
{"action": "REQUEST_GATE", "action_reasoning": "…", "action_details": {"reason": "what the person has to decide"}}"""

_CERTAINTY = """The object may also have these fields:
- "uncertain": true where you are not sure of this action
- "request_confidence": true to have the way to the goal checked
- "confidence": a number from 0 to 1, how sure you are"""


def fenced(name: str, text: str) -> str:
    """Return *text* between marks that it can't hold itself."""
    mark = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:MARK_CHARS]
    return f"<<<{name} {mark}>>>\n{text}\n<<<end {mark}>>>"


def earlier_section(turns: Sequence[tuple[str, str]], left_out: int = 0, summary: str = "") -> str:
    """Return what the turns of a conversation, as role and content, show before the message that is answered now."""
    parts = [f"### {role}\n" + fenced(f"earlier_{role}", content) for role, content in turns]
    if left_out:
        told = f"### {left_out_heading(left_out, summary)}"
        parts.insert(FIRST_TURNS, f"{told}\n{fenced('summary', summary)}" if summary else told)
    return "\n".join(("## Earlier in this conversation, oldest first", *parts))


def left_out_heading(left_out: int, summary: str) -> str:
    """Say how many turns are missing, before the *summary* of them where there is one."""
    return f"{left_out} turns are left out here{', in short:' if summary else ''}"


def task_instructions(kind: DecisionKind, run_kind: str) -> str:
    """Return what the platform says of the task at hand; empty for a decision of a network run."""
    if kind is DecisionKind.SUMMARIZE and run_kind in PLAIN_KINDS:
        return _SUMMARIZE_TURNS
    if kind in _TASKS:
        return _TASKS[kind]
    rules = _RULES.get(run_kind, "")
    return f"{rules}\n\n{_REPLAN}".strip() if kind is DecisionKind.REPLAN else rules


def extra_actions(run_kind: str) -> tuple[str, ...]:
    """Return what a decision may be or say beside the three actions of a network run."""
    return () if run_kind in PLAIN_KINDS else (_ACTIONS, _CERTAINTY)


def action_names(run_kind: str) -> tuple[str, ...]:
    """Return the names of those actions."""
    return () if run_kind in PLAIN_KINDS else ("ABANDON", "REQUEST_GATE")


def run_sections(run: JsonObject | None, run_kind: str) -> tuple[str, ...]:
    """Return the snapshot of a goal or background run, a section for each of its parts."""
    if not run:
        return ()
    head = "# Scratchpad: the run as it stands" if run_kind == "background" else "# The run as it stands"
    return (head, *_sections(run))


def lasting_sections(run: JsonObject | None) -> list[str]:
    """Return the sections of a run's snapshot that stay as they are while an agent is at work."""
    return _sections({name: value for name, value in (run or {}).items() if name in LASTING_SECTIONS})


def volatile_sections(run: JsonObject | None, run_kind: str, kind: DecisionKind) -> tuple[str, ...]:
    """Return where a run stands now, and that another attempt is wanted: the end of a conversation."""
    now = {name: value for name, value in (run or {}).items() if value and name not in LASTING_SECTIONS}
    return (*run_sections(now, run_kind), *((_REPLAN,) if kind is DecisionKind.REPLAN else ()))


def assessed_sections(assessment: JsonObject | None) -> tuple[str, ...]:
    """Return what an assessment is to judge."""
    title = "# What there is to plan with" if (assessment or {}).get("kind") == "compile_plan" else _JUDGED
    judged = {name: value for name, value in (assessment or {}).items() if name not in ("kind", "deliverable_schema")}
    return (title, *_sections(judged)) if judged else ()


def _sections(parts: JsonObject) -> list[str]:
    return [
        f"## {_TITLES.get(name, name.replace('_', ' ').capitalize())}\n{fenced(name, _shown(name, value))}"
        for name, value in parts.items()
        if value not in (None, "", [], {})
    ]


def _shown(name: str, value: object) -> str:
    if name == "context_sections" and isinstance(value, dict):  # the caller's, title by title
        return "\n\n".join(f"# {title}\n{_text(text)}" for title, text in value.items())
    if name == "conversation" and isinstance(value, dict):
        return conversation_text(value)
    return _text(value)


def conversation_text(conversation: JsonObject) -> str:
    """Return the turns of a conversation as text, the oldest first; the run machine has bounded them."""
    left_out = conversation.get("left_out") or 0
    lines = [f"({left_out} earlier turns are left out)"] if left_out else []
    for turn in conversation.get("turns", ()):
        lines.append(f"[step {turn['step']}] {turn['agent']}: {turn.get('reasoning', '')}".rstrip())
        for call in turn.get("calls", ()):
            lines.append(f"  {call['tool']}({_line(call['arguments'])}): {call['status']}")
            lines.append(f"    {call['result']}")
        if "handed_over_to" in turn:
            lines.append(f"  handed over to {turn['handed_over_to']}: {turn['said']}")
    return "\n".join(lines)


def _line(value: object) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def _text(value: object) -> str:
    """Texts as they are, lists of texts as lines, everything else as JSON."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, list) and all(isinstance(line, str) for line in value):
        text = "\n".join(f"- {line}" for line in value)
    else:
        text = to_json(value, indent=1).decode()
    left = len(text) - SECTION_CHARS
    return text if left <= 0 else f"{text[:SECTION_CHARS]}… ({left} more characters)"
