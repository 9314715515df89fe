"""`towpath clients subjects`: where a program connects, and what it asks and hears there, in any language."""

from typing import Annotated

from cyclopts import Parameter

from towpath.cli.broker.broker_user_list import read
from towpath.cli.shared.options import OUTPUT_OPTIONS, OutputOptions
from towpath.cli.shared.output import Column
from towpath.cli.shared.output_rows import ClientSubjectRow, ClientSubjectsRow
from towpath.client.settings import running_state
from towpath_contracts import rpc, subjects
from towpath_contracts.authority import SERVICES, NatsUserRights
from towpath_contracts.events.log import TransitionEvents
from towpath_contracts.problems.registry import ProblemError, problem

_DOES = {
    "submit": "starts a run, and answers once it is stored",
    "enqueue": "leaves a task in the stream TASKS; the acknowledgement is JetStream's",
    "get": "says how a run stands; wait_ms waits for its end",
    "events": "reads the log of a run after a seq",
    "cancel": "asks a run to stop",
    "note": "tells the model of a run something",
    "gate": "stops a run for a person",
    "confidence": "asks a goal run how confident it is",
    "pause": "pauses a run and all below it",
    "resume": "lets a paused run go on",
}

_TASK = '{"network": "support", "user_message": "Refund order 8812"}'

_COLUMNS = (
    Column("subject", "subject"),
    Column("takes", "request"),
    Column("answers", "answer"),
    Column("does", "does", is_whole=True),
)


def show_subjects(
    caller: str = subjects.ANONYMOUS,
    /,
    *,
    operates: Annotated[bool, Parameter(negative="")] = False,
    printed: OutputOptions = OUTPUT_OPTIONS,
) -> None:
    """Show what a program asks and hears over NATS, in any language, and the broker of the platform in this folder.

    Args:
        caller: The name of its credential. The broker of `towpath up` asks for none: there it is anonymous.
        operates: Its credential may also pause and resume runs.
    """
    if caller in SERVICES:
        raise ProblemError(problem("request_invalid", f"{caller} is a service of the platform, and no caller"))
    listed = read({"clients": [caller], "operators": [caller] if operates else []}, "this can't be a caller")
    rows = client_subjects(caller, listed.users()[caller])
    url = (running_state() or {}).get("nats_url")
    out = printed.out()
    if not out.for_people:
        out.data(ClientSubjectsRow(caller=caller, nats_url=url, subjects=rows))
        return
    out.write(f"Broker: {url or 'that of TOWPATH_NATS_URL; no platform runs in this folder'}")
    out.rows("subjects", rows, _COLUMNS, empty="")
    login = "" if caller == subjects.ANONYMOUS else f' --user {caller} --password "$TOWPATH_NATS_PASSWORD"'
    out.write(f"Try it: nats --server {url or '$TOWPATH_NATS_URL'}{login} request {rows[0]['subject']} '{_TASK}'")
    out.write("The messages: /asyncapi.json of the gateway; a program: docs/guides/javascript-nats.md.")


def client_subjects(caller: str, rights: NatsUserRights) -> list[ClientSubjectRow]:
    """Return what a program whose credential is *caller* may say by its *rights*, and then what it may hear."""
    rows = [_said(subject) for subject in rights.publish]
    live = subjects.task_live_of(caller)
    if live in rights.subscribe:
        told = "tells the events of the caller's runs, and of those below them: subscribe"
        rows.append(ClientSubjectRow(subject=live, request="", answer=TransitionEvents.__name__, does=told))
    return rows


def _said(subject: str) -> ClientSubjectRow:
    verb = subject.split(".")[1]
    request, answer = rpc.CLIENT_SUBJECTS["task.submit" if verb == "enqueue" else f"task.{verb}"]
    answered = "" if verb == "enqueue" else answer.__name__
    return ClientSubjectRow(subject=subject, request=request.__name__, answer=answered, does=_DOES[verb])
