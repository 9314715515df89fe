"""Grants on the command line: the options of `towpath run` that give its task fewer rights, and how grants are shown.

Reasons and conditions may be a model's words: they are printed as text that a terminal doesn't obey.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

from towpath.cli.shared.input_files import read_text
from towpath.cli.shared.output import Column, OutputPrinter, print_notice
from towpath.cli.shared.text import one_line
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem

if TYPE_CHECKING:
    from towpath.client.client import Client
    from towpath_contracts.grant_proposals.proposals import GrantProposal

AUTO = "auto"
REASON_CHARS = 100
_ENTRIES = (
    Column("tool", "tool"),
    Column("operation", "operation"),
    Column("when", lambda row: one_line(row["when"] or "", REASON_CHARS)),
    Column("reason", lambda row: ("the model: " if row["said_by_model"] else "") + row["reason"], is_whole=True),
)
_LEFT_OUT = (Column("left out", "tool"), Column("why", "reason", is_whole=True))

Flag = Annotated[bool, Parameter(negative="")]


@Parameter(name="*", group=Group("Its rights", sort_key=28))
@dataclass(frozen=True, kw_only=True)
class GrantOptions:
    """What gives the task a grant of its own; without any it may use what the policy gives."""

    grant: str | None = None
    "auto: let a model propose it from the message; else a YAML or JSON file, such as towpath grants … -o json prints."
    grant_model: str | None = None
    "With --grant auto: the model that proposes; else the network's own."
    grant_from_runs: Flag = False
    "Grant what completed runs of the network have used in the last 30 days."

    def check(self) -> None:
        """Raise ProblemError where options contradict each other."""
        if self.grant is not None and self.grant_from_runs:
            raise ProblemError(problem("request_invalid", "choose one of --grant and --grant-from-runs"))
        if self.grant_model is not None and self.grant != AUTO:
            raise ProblemError(problem("request_invalid", "--grant-model belongs to --grant auto"))

    async def options(
        self, client: "Client", out: OutputPrinter, network: str, message: str, task: Mapping[str, Any]
    ) -> JsonObject:
        """Return the grant as a field of SubmitTask, shown before; raises ProblemError where none can be proposed."""
        if self.grant_from_runs:
            proposal = await client.grants.from_runs(network)
        elif self.grant == AUTO:
            key = task.get("idempotency_key")
            more: JsonObject = {} if key is None else {"idempotency_key": f"{key}:grant"[:255]}
            model = self.grant_model or task.get("model")
            proposal = await client.grants.propose(network, said(message, task), model=model, **more)
        elif self.grant is not None:
            return {"grant": read_grant(Path(self.grant))}
        else:
            return {}
        show_before_run(out, proposal)
        return {"grant": [rule.model_dump(mode="json") for rule in proposal.grant]}


def said(message: str, task: Mapping[str, Any]) -> str:
    """Return what the caller says in a task: the message and what it is to reach, and nothing that is quoted."""
    goal, objective, plan = (_part(task.get(name)) for name in ("goal", "background", "plan"))
    texts = [message, goal.get("goal"), objective.get("objective"), plan.get("prompt")]
    if isinstance(steps := _part(plan.get("plan")).get("steps"), Sequence):
        import json

        texts.append(json.dumps(steps, ensure_ascii=False))
    found = "\n\n".join(text for text in texts if isinstance(text, str) and text)
    if not found:
        raise ProblemError(problem("request_invalid", "--grant auto needs a message: it says what the task is about"))
    return found


def _part(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def read_grant(path: Path) -> list[Any]:
    """Return the entries in *path*: a list, or an object with `grant`; raises ProblemError for anything else."""
    import yaml

    from towpath_readings.yaml_lines import locate_yaml_fault

    text = read_text(path)
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ProblemError(problem("request_invalid", locate_yaml_fault(path, error, text))) from error
    entries = found.get("grant") if isinstance(found, dict) else found
    if not isinstance(entries, list):
        raise ProblemError(problem("request_invalid", f"{path} holds no list of {{tool, operation, when}}"))
    return entries


def show_before_run(out: OutputPrinter, proposal: "GrantProposal") -> None:
    """Say which grant a task is submitted with; to a program's reader on stderr."""
    if out.for_people:
        show_proposal(out, proposal, all_of_it=False)
        return
    for entry in proposal.entries:
        when = "" if entry.when is None else f" when {one_line(entry.when, REASON_CHARS)}"
        print_notice(f"granted {entry.tool} {entry.operation}{when}: {one_line(entry.reason, REASON_CHARS)}")
    if not proposal.entries:
        print_notice("granted nothing: no tool was proposed")


def show_proposal(out: OutputPrinter, proposal: "GrantProposal", *, all_of_it: bool = True) -> None:
    """Print a proposal: its entries with their reasons, and with *all_of_it* what was left out."""
    found = proposal.model_dump(mode="json")
    if not out.for_people:
        out.data(found)
        return
    out.rows("entries", found["entries"], _ENTRIES, empty="  no tool: a task with this grant can call none")
    if all_of_it and found["left_out"]:
        out.write("")
        out.rows("left_out", found["left_out"], _LEFT_OUT, empty="")
    if not proposal.complete:
        out.write(f"  only the newest {proposal.runs} completed runs were read", "yellow")
    if proposal.run_id is not None:
        out.write(f"  asked in run {proposal.run_id}", "dim")
