"""`towpath run NETWORK MESSAGE`: submit a task and follow it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

from cyclopts import Group, Parameter

from towpath.cli.definitions.goal_options import GoalOptions
from towpath.cli.definitions.grant_options import GrantOptions
from towpath.cli.definitions.objective_options import ObjectiveOptions
from towpath.cli.definitions.plan_options import PlanOptions
from towpath.cli.definitions.plans_commands import show_plan
from towpath.cli.runs.event_lines import EventFormatter
from towpath.cli.runs.next_command import next_command
from towpath.cli.runs.run_follower import RunFollower, ask_at_gate, wait_until
from towpath.cli.runs.told_causes import ToldCauses
from towpath.cli.shared.confirmation import is_interactive
from towpath.cli.shared.exit_codes import OK, RUN_FAILED, WAITING
from towpath.cli.shared.input_files import read_attached, read_json, read_labels, read_quoted, read_script, read_text
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions
from towpath.cli.shared.output import print_notice
from towpath.cli.shared.short_ids import resolve_run_id
from towpath.client.client import Client
from towpath.errors import RefusedError
from towpath.tools.declaration import seconds
from towpath_contracts.problems.registry import Problem, ProblemError, problem
from towpath_contracts.runs.statuses import FINAL_STATUSES

if TYPE_CHECKING:
    from towpath.networks.script_file import ScriptFile

FOREVER_S = 7 * 24 * 3600.0
"""The longest a run may take (SubmitTask.timeout_ms), so following it longer shows nothing new."""

_OPTIONS = {
    "/network": "NETWORK",
    "/user_message": "MESSAGE",
    "/script": "--script",
    "/model": "--model",
    "/agent_key": "--agent",
    "/labels": "--label",
    "/quoted_inputs": "--quote",
    "/attachments": "--attach",
    "/continues": "--continue",
    "/messages": "--messages",
    "/idempotency_key": "--idempotency-key",
    "/max_steps": "--max-steps",
    "/deadline": "--deadline",
    "/timeout_ms": "--deadline",
    "/budget/usd": "--usd",
    "/budget/tokens": "--tokens",
    "/budget/model_calls": "--model-calls",
    "/budget/tool_calls": "--tool-calls",
}
"""Which option a field of a task comes from; what lies deeper, such as one label, keeps its name behind it."""

_ONE_WAY = "Leave one out: without any the run is followed to its end, and --wait 30s shows every step too."

Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*", group=Group("The task", sort_key=20))
@dataclass(frozen=True, kw_only=True)
class TaskOptions:
    """What is asked beside network and message."""

    file: Annotated[Path | None, Parameter(name=("--file", "-f"))] = None
    "A file with the message, in place of the words (- is standard input)."
    script: Path | None = None
    "A JSON file with the decisions to play instead of asking a model."
    model: str | None = None
    "Ask this model, such as gemini:gemini-2.5-flash, whatever the network says."
    agent: str | None = None
    "Begin with this agent instead of the network's default one."
    label: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    "key=value; may be given more than once."
    quote: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    "name=FILE with a text of somebody else (- is standard input), which agents read and which vouches for nothing."
    attach: Annotated[tuple[str, ...], Parameter(negative="")] = ()
    "name=FILE with a text, PDF or image that agents are shown, where all their models take it (docs/models.md)."
    continue_run: Annotated[str | None, Parameter(name="--continue")] = None
    "Reply to this run, which has ended, by its id or the beginning or end of it: the message is all that is needed."
    messages: Path | None = None
    "A JSON file with earlier turns of the conversation, oldest first: [{role: user or assistant, content}, …]."
    idempotency_key: str | None = None
    "The same key and task give the same run for 24 hours."
    max_steps: int | None = None
    "Stop after so many steps."
    deadline: str | None = None
    "End the run after so much active time, such as 30m, and not after that of its network or kind (docs/runs.md)."
    usd: float | None = None
    "Spend at most so many dollars; each call reserves its worst case first (docs/budgets.md)."
    tokens: int | None = None
    "Use at most so many tokens of models; each call reserves its worst case first: below about 12000 none is made."
    model_calls: int | None = None
    "Ask models at most so often."
    tool_calls: int | None = None
    "Call tools at most so often."
    debug: Flag = False
    "Keep prompts and model answers in the record."

    def message(self, words: str) -> str:
        """Return what the run is about: *words*, or the text of the file; ProblemError where both are given."""
        if self.file is None:
            return words
        if words:
            remedy = "Give one of them; what others wrote goes beside the message: --quote mail=FILE."
            raise ProblemError(problem("request_invalid", "a message and --file are both given", remedy=remedy))
        text = read_text(self.file).strip()
        if not text:
            raise ProblemError(problem("request_invalid", f"--file {self.file}: there is no text in it"))
        return text

    def options(self, script: "ScriptFile | None") -> dict[str, Any]:
        """Return the fields of SubmitTask that were given, of which the *script* was read before.

        Raises ProblemError for a bad file or label.
        """
        given: dict[str, Any] = {
            "model": self.model,
            "agent_key": self.agent,
            "idempotency_key": self.idempotency_key,
            "max_steps": self.max_steps,
            "labels": read_labels(self.label),
            "quoted_inputs": read_quoted(self.quote) or None,
            "attachments": read_attached(self.attach) or None,
            "deadline": self.deadline,
            "debug": self.debug,
            "budget": self._budget(),
            "messages": None if self.messages is None else read_json(self.messages),
        }
        if script is not None:
            given |= {"script": list(script.entries), "model": self.model or "scripted:task"}
        return {name: value for name, value in given.items() if value is not None}

    def _budget(self) -> dict[str, Any] | None:
        given = {"usd": self.usd, "tokens": self.tokens, "model_calls": self.model_calls}
        given["tool_calls"] = self.tool_calls
        return {name: value for name, value in given.items() if value is not None} or None


@Parameter(name="*", group=Group("Until when", sort_key=10))
@dataclass(frozen=True, kw_only=True)
class WaitOptions:
    """How long to stay with the run."""

    watch: Flag = False
    "Show every step until the end; what is done without a choice."
    detach: Flag = False
    "Print the run's id and leave."
    wait: str | None = None
    "Wait at most this long, such as 30s or 5m; then the exit code is 5, and the run goes on."

    def limit_s(self) -> float:
        """Return how long to follow, in seconds; raises ProblemError where two ways were chosen."""
        if self.watch + self.detach + (self.wait is not None) > 1:
            raise ProblemError(
                problem("request_invalid", "choose one of --watch, --detach and --wait", remedy=_ONE_WAY)
            )
        if self.detach:
            return 0.0
        try:
            return FOREVER_S if self.wait is None else seconds(self.wait)
        except (TypeError, ValueError) as error:
            raise ProblemError(problem("request_invalid", f"--wait: {error}")) from error


_INSTEAD_OF_MESSAGE = frozenset({"script", "goal", "background", "plan"})
_TASK = TaskOptions()
_GOAL = GoalOptions()
_OBJECTIVE = ObjectiveOptions()
_PLAN = PlanOptions()
_GRANT = GrantOptions()
_UNTIL = WaitOptions()


async def _replied(client: Client, run: str, network: str, message: str) -> tuple[str, str, UUID]:
    """Return the network, the message and the run that a command means which replies to *run*.

    What stands alone is the message: the network is that of the run.
    """
    earlier = await client.get(await resolve_run_id(client, run))
    return (network, message, earlier.run_id) if message else (earlier.network, network, earlier.run_id)


async def run(
    network: str,
    message: str = "",
    /,
    *,
    how: WaitOptions = _UNTIL,
    task: TaskOptions = _TASK,
    aim: GoalOptions = _GOAL,
    objective: ObjectiveOptions = _OBJECTIVE,
    steps: PlanOptions = _PLAN,
    rights: GrantOptions = _GRANT,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> int:
    """Submit a task and follow it; the exit code says how it ended.

    Args:
        network: The published network that runs it; with --continue the message, if that is all.
        message: What it is about.
    """
    limit_s = how.limit_s()
    script, doubts = (None, []) if task.script is None else read_script(task.script)
    options = task.options(script) | aim.options() | objective.options() | steps.options()
    out = common.out()
    causes = ToldCauses(script)
    if how.detach or not out.for_people:
        _tell_doubts(doubts)
    rights.check()
    message = task.message(message)
    if not message and task.continue_run is None and not options.keys() & _INSTEAD_OF_MESSAGE:
        said = f"as in towpath run {network} 'Refund order 8812', or name a file with it: -f FILE"
        detail = f"no message is given: write what the run is about, {said}"
        raise ProblemError(problem("request_invalid", detail))
    async with common.connect() as client:
        if task.continue_run is not None:
            network, message, options["continues"] = await _replied(client, task.continue_run, network, message)
        options |= await rights.options(client, out, network, message, options)
        try:
            accepted = await client.submit(network, message, **options)
        except RefusedError as error:
            raise RefusedError(with_options_named(error.problem)) from error
        if how.detach:
            if out.for_people:
                out.write(str(accepted.run_id))
            else:
                out.data(accepted.model_dump(mode="json"))
            return OK
        out.write(f"  run {accepted.run_id}  {accepted.network}@v{accepted.version}", "bold")
        gate_handler = ask_at_gate if out.for_people and is_interactive() and how.wait is None else None
        follower = RunFollower(client, out, gate_handler, EventFormatter(causes=causes))
        try:
            await wait_until(limit_s, follower.follow(accepted.run_id))
        finally:
            if out.for_people:
                _tell_doubts(causes.untold(doubts))
        return await show_result(client, accepted.run_id, common)


def _tell_doubts(doubts: Iterable[str]) -> None:
    """Print what is odd in a script: before the run, or after it where its lines may tell the same with the outcome."""
    for doubt in doubts:
        print_notice(doubt)


def with_options_named(found: Problem) -> Problem:
    """Return *found* with the options in its texts, in the place of the fields that they fill; pointers stay."""
    detail, errors = found.detail, []
    for one in found.errors:
        named = _named(one.pointer)
        detail = detail.replace(f"{one.pointer}: ", f"{named}: ", 1) if one.pointer else detail
        errors.append(one if named == one.pointer else one.model_copy(update={"detail": f"{named}: {one.detail}"}))
    return found.model_copy(update={"detail": detail, "errors": tuple(errors)})


def _named(pointer: str) -> str:
    place, deeper = pointer, ""
    while place:
        if place in _OPTIONS:
            return f"{_OPTIONS[place]}{deeper.replace('/', ' ')}"
        place, _, last = place.rpartition("/")
        deeper = f"/{last}{deeper}"
    return pointer


async def show_result(client: Client, run_id: UUID, common: ConnectionOptions) -> int:
    """Print the run as it stands and return the exit code that says how it stands."""
    view = await client.get(run_id)
    out = common.out()
    if out.for_people:
        await show_plan(client, view, out)
    if not out.for_people:
        out.data(view.model_dump(mode="json"))
    elif view.status not in FINAL_STATUSES:
        out.write(f"  {view.status}: it goes on; follow it with:\n  towpath runs watch {run_id}", "yellow")
    else:
        out.write(f"\n  record: towpath runs show {run_id}\n  audit:  towpath audit search --run {run_id}", "dim")
        if (command := next_command(view)) is not None:
            out.write(f"  go on:  {command}", "dim")
    if view.status == "completed":
        return OK
    return RUN_FAILED if view.status in FINAL_STATUSES else WAITING
