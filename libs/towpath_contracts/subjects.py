"""Every subject, declared once.

No other module spells a subject. A function returns the subject for its arguments; a constant is a filter.
"""

import re
from uuid import UUID

TASK_SUBMIT_ALL = "task.submit.*"
TASK_SUBMIT_ANONYMOUS = "task.submit"
TASK_ENQUEUE_ALL = "task.enqueue.*"
TASK_GET_ALL = "task.get.*"
TASK_EVENTS_ALL = "task.events.*"
TASK_CANCEL_ALL = "task.cancel.*"
TASK_PAUSE_ALL = "task.pause.*"
TASK_RESUME_ALL = "task.resume.*"
TASK_NOTE_ALL = "task.note.*"
TASK_GATE_ALL = "task.gate.*"
TASK_CONFIDENCE_ALL = "task.confidence.*"
TASK_LIVE_ALL = "task.live.*.*"
RUN_INBOX_ALL = "run.inbox.>"
DECIDE_ALL = "decide.*"
TOOL_REQUEST = "tool.request"
TOOL_EXEC_ALL = "tool.exec.*.*"
TOOL_OUTCOME = "tool.outcome"
TOOL_CANCEL_ALL = "tool.cancel.*.*.*"
TOOL_CONFIRM_ALL = "tool.confirm.*.*.*"
RUN_EVENT_ALL = "run.event.*"
RUN_TOKENS_ALL = "run.tokens.*"
LOG_ALL = "log.>"
AGENTS_INFO_ALL = "agents.info.*"
AGENTS_PROMPT_ALL = "agents.prompt.towpath.*.*"
AGENTS_STATUS_ALL = "agents.status.towpath.*.*"
AGENTS_ANSWER_ALL = "agents.answer.*.*"
AGENTS_BEATS_ALL = "agents.hb.*.*.*"
"""Where clients of that protocol listen by themselves, in their own accounts; nobody speaks there."""
AGENTS_DISCOVERY = "$SRV.INFO.agents"
"""Where clients of the NATS agent protocol look for agents; of each client's account that is its own `agents.info`."""
LOG_LLM_CALL = "log.llm_call"
LOG_TOOL_ALL = "log.tool.*.*"

DEFAULT_POOL = "default"
"""The decider pool that serves every model without a pool of its own."""

AGENT = "agent"
"""The source of facts from agents in user code; also what their models begin with: `agent:<name>`."""

_AGENT_NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,63}")

ANONYMOUS = "anonymous"
"""The caller of plain `task.submit`, and of whoever has no credential at the broker."""

LOCAL = "local"
"""The caller of the person who shows the token of an embedded platform; no client of the broker has rights as it."""


def task_submit(caller: str) -> str:
    """Where *caller* submits a task and waits for RunAccepted."""
    return f"task.submit.{caller}"


def task_enqueue(caller: str) -> str:
    """Where *caller* leaves a task without waiting."""
    return f"task.enqueue.{caller}"


def task_get(caller: str) -> str:
    """Where *caller* asks for one of its project's runs."""
    return f"task.get.{caller}"


def task_events(caller: str) -> str:
    """Where *caller* asks for events of one of its project's runs."""
    return f"task.events.{caller}"


def task_cancel(caller: str) -> str:
    """Where *caller* asks one of its project's runs to stop."""
    return f"task.cancel.{caller}"


def task_act(act: str, caller: str) -> str:
    """Where *caller* steers one of its project's runs; *act* is one of `run_control.SteeringAct`."""
    return f"task.{act}.{caller}"


def task_live(caller: str, run_id: UUID) -> str:
    """Where *caller* hears the events of one of its runs as they are committed."""
    return f"task.live.{caller}.{run_id}"


def task_live_of(caller: str) -> str:
    """Every event of *caller*'s runs, and of the runs below them."""
    return f"task.live.{caller}.*"


def agents_info(caller: str) -> str:
    """Where the gateway is asked for the agents that *caller* may prompt."""
    return f"agents.info.{caller}"


def agents_prompt(caller: str, session: str) -> str:
    """Where *caller* prompts a network as an agent; the protocol calls a network's place a session."""
    return f"agents.prompt.towpath.{caller}.{session}"


def agents_status(caller: str, session: str) -> str:
    """Where *caller* asks whether an agent is there."""
    return f"agents.status.towpath.{caller}.{session}"


def agents_answer(caller: str, question: str) -> str:
    """Where *caller* answers a question that it was asked while it prompts."""
    return f"agents.answer.{caller}.{question}"


def run_inbox(source: str, run_id: UUID) -> str:
    """Where *source* reports facts to a run."""
    return f"run.inbox.{source}.{run_id}"


def agent_inbox(pool: str, run_id: UUID | str) -> str:
    """Where the agents of *pool* report facts to a run; their credential allows no other pool."""
    return f"run.inbox.{AGENT}.{pool}.{run_id}"


def agent_model(name: str) -> str:
    """The model string of the agent *name*."""
    return f"{AGENT}:{name}"


def agent_pool(project: str, name: str) -> str:
    """The pool of the agent *name* in *project*.

    Neither can hold the `=` between them, so that no two pairs share a pool and none is a decider's.
    """
    return f"{AGENT}_{project}={name}"


def pool_of(model: str, project: str) -> str:
    """The pool that answers for *model* in *project*: an agent's own, the deciders' for every other model.

    A name that no agent can have goes to the deciders too: they say that there is no such model.
    """
    provider, _, name = model.partition(":")
    return agent_pool(project, name) if provider == AGENT and _AGENT_NAME.fullmatch(name) else DEFAULT_POOL


def agent_of_pool(pool: str) -> tuple[str, str] | None:
    """The project and name of an agent's pool; None for a pool of deciders."""
    project, separator, name = pool.removeprefix(f"{AGENT}_").partition("=")
    return (project, name) if separator and pool == agent_pool(project, name) else None


def decide(pool: str) -> str:
    """Where a decider pool takes its requests."""
    return f"decide.{pool}"


REGISTER_ALL = "register.*.*"
"""Small values that processes of one role share; only the last one of each subject is kept."""


def register(space: str, name: str) -> str:
    """Where the register *name* of a role's *space* lies; both are one token."""
    return f"register.{space}.{name}"


def tool_exec(project: str, toolset: str) -> str:
    """Where the workers of *toolset* in *project* take their invocations."""
    return f"tool.exec.{project}.{toolset}"


def tool_cancel(project: str, toolset: str, execution_id: UUID) -> str:
    """Where the workers of *toolset* in *project* are asked to stop a call."""
    return f"tool.cancel.{project}.{toolset}.{execution_id}"


def tool_cancel_of(project: str, toolset: str) -> str:
    """Every stop for *toolset* in *project*."""
    return f"tool.cancel.{project}.{toolset}.*"


def tool_confirm(project: str, toolset: str, place: str) -> str:
    """Where a worker of *toolset* in *project* learns that the ledger has its outcomes; *place* is its own choice."""
    return f"tool.confirm.{project}.{toolset}.{place}"


def run_event(run_id: UUID) -> str:
    """Where the events of a run are published."""
    return f"run.event.{run_id}"


def run_tokens(run_id: UUID) -> str:
    """Where model text is published while it is written."""
    return f"run.tokens.{run_id}"


def log_tool(project: str, toolset: str) -> str:
    """Where the workers of *toolset* in *project* say what their tools wrote."""
    return f"log.tool.{project}.{toolset}"


def for_toolset(subject: str, project: str, toolset: str) -> str:
    """Where a worker asks *subject* in the name of *toolset* in *project*; its credential allows no other names."""
    return f"{subject}.{project}.{toolset}"


def for_agent(subject: str, project: str, name: str) -> str:
    """Where a process asks *subject* in the name of the agent *name* in *project*; its credential allows no others."""
    return f"{subject}.{project}.{name}"


def service(name: str, method: str) -> str:
    """Where *name* answers *method*; request and answer types are in `rpc.METHODS`."""
    return f"svc.{name}.{method}"
