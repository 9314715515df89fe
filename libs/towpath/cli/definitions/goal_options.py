"""Goals on the command line: the options of `towpath run`, and `towpath runs goal`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Group, Parameter

from towpath.cli.shared import short_ids
from towpath.cli.shared.input_files import read_json
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter
from towpath.cli.shared.text import one_line
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath_readings.goals import GoalStep, GoalView

Many = Annotated[tuple[str, ...], Parameter(negative="")]


@Parameter(name="*", group=Group("A goal", sort_key=25))
@dataclass(frozen=True, kw_only=True)
class GoalOptions:
    """What makes the run one that pursues a goal."""

    goal: str | None = None
    "What is to be reached; or @FILE with the whole goal as JSON."
    criterion: Many = ()
    "An expression that must be true, such as 'tests.failed == 0'; may be given more than once."
    criterion_text: Many = ()
    "A criterion in words, which a model judges."
    constraint: Many = ()
    "key=value; may be given more than once."
    autonomy: Literal["low", "medium", "high"] | None = None
    "Who is asked when the run is in doubt: low always a person, high hardly ever."
    judge_model: str | None = None
    "The model that judges steps and progress; without it the one that acts does."

    def options(self) -> dict[str, Any]:
        """Return the goal as a field of SubmitTask; raises ProblemError where parts of a goal come without one."""
        if self.goal is None:
            if self._has_parts:
                raise ProblemError(problem("request_invalid", "criteria and constraints belong to a --goal"))
            return {}
        return {"goal": self._file() if self.goal.startswith("@") else self._to_json()}

    def _to_json(self) -> JsonObject:
        criteria = [*({"when": one} for one in self.criterion), *({"text": one} for one in self.criterion_text)]
        written: JsonObject = {"goal": self.goal, "acceptance_criteria": criteria, "constraints": self._constraints()}
        chosen = {"autonomy": self.autonomy, "judge_model": self.judge_model}
        settings = {name: value for name, value in chosen.items() if value is not None}
        return {**written, "settings": settings} if settings else written

    @property
    def _has_parts(self) -> bool:
        given = (self.criterion, self.criterion_text, self.constraint, self.autonomy, self.judge_model)
        return any(given)

    def _constraints(self) -> JsonObject:
        for pair in self.constraint:
            if "=" not in pair:
                raise ProblemError(problem("request_invalid", f"--constraint takes key=value, not {pair}"))
        return dict(pair.split("=", 1) for pair in self.constraint)

    def _file(self) -> JsonObject:
        if self._has_parts:
            raise ProblemError(problem("request_invalid", "a goal from a file brings everything along"))
        found = read_json(Path((self.goal or "")[1:]))
        if not isinstance(found, dict):
            raise ProblemError(problem("request_invalid", f"{self.goal} holds no JSON object"))
        inner = found.get("goal")
        return inner if isinstance(inner, dict) else found  # a whole task brings its goal along


def _confidence(row: Any) -> str:
    if row["last_confidence_score"] is None:
        step = row["last_confidence_check_step"]
        return f"asked for at step {step}, but nobody judged it" if step else ""
    return f"{row['last_confidence_score']:.2f} at step {row['last_confidence_check_step']}"


def _cost(row: Any) -> str:
    cost = row["total_cost_usd"]
    return "not known: a price is missing" if cost is None else f"${cost:.4f}" if cost else ""


def _child_runs(row: Any) -> str:
    found = row["child_runs"]
    if not found:
        return ""
    running = sum(one["status"] == "running" for one in found)
    rest = f", {running} still running and not counted" if running else ""
    return f"{len(found)}, counted below{rest}"


_SHOW = (
    Column("run", "task_id"),
    Column("goal", "goal"),
    Column("status", lambda row: f"{row['status']} {row['reason']}".strip()),
    Column("agent", "agent_id"),
    Column("step", lambda row: f"{row['current_step']} of at most {row['max_steps']}"),
    Column("progress", lambda row: f"{row['progress_score']:.2f} by {row['progress_source']}"),
    Column("confidence", _confidence),
    Column("failures", lambda row: f"{row['failure_count']}, {row['consecutive_failures']} in a row"),
    Column("escalated", "escalation_reason"),
    Column("child runs", _child_runs),
    Column("tokens", "total_tokens"),
    Column("cost", _cost),
)


def add_to(app: App) -> None:
    """Add these commands to `towpath runs`."""
    app.command(goal, help_epilogue=examples("towpath runs goal 0192f3", "towpath runs goal 0192f3 -o json"))


async def goal(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show how a goal run stands: criteria, progress, confidence, and what came of every step.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        state = await client.goal(await short_ids.resolve_run_id(client, run))
    out = common.out()
    out.record(state.model_dump(mode="json"), _SHOW)
    if out.for_people:
        _show_goal(out, state)


def _show_goal(out: OutputPrinter, state: "GoalView") -> None:
    out.write("")
    for number, words in enumerate(state.acceptance_criteria):
        met = number in state.criteria_met
        out.write(f"  {'✓' if met else '·'} {one_line(words, 96)}", "green" if met else "dim")
    for step in state.steps_history:
        out.write(f"  {step_line(step)}", {True: "green", False: "red", None: "dim"}[step.success])


def step_line(step: "GoalStep") -> str:
    """Say one step in one line."""
    mark = {True: "✓", False: "✕", None: "◐"}[step.success]
    tools = ", ".join(str(call["tool"]) for call in step.execution_result)
    done = tools or str(step.planned_action.get("action", ""))
    tries = f" (attempt {step.attempt_number})" if step.attempt_number > 1 else ""
    reason = f"  {one_line(step.error_if_failed, 60)}" if step.error_if_failed else ""
    return f"{mark} {step.step_number:>3} {done}{tries}  {step.acceptance_progress:.2f}{reason}"
