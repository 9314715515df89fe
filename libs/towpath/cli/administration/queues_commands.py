"""`towpath queues`: what waits for whom, and messages that could not be handled, to be sent again or discarded."""

from typing import Literal

from cyclopts import App

from towpath.cli.shared.exit_codes import OK, RUN_FAILED
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, Row, print_notice
from towpath.cli.shared.text import one_line
from towpath_contracts.tools.queues import QueueState

app = App(
    name="queues",
    help="Look at what waits in the queues, and at what they could not handle.",
    help_epilogue=examples("towpath queues list", "towpath queues lag --over 100"),
)
dead = App(
    name="dead",
    help="Dead letters: look at them, send them again, throw them away.",
    help_epilogue=examples(
        "towpath queues dead list", "towpath queues dead requeue 17 --reason 'the worker is repaired'"
    ),
)
app.command(dead)

_LIST = (
    Column("letter", "dead_letter_id"),
    Column("at", lambda row: str(row["at"])[:19].replace("T", " ")),
    Column("status", "status"),
    Column("stream", "stream"),
    Column("run", "run_id", is_id=True),
    Column("why", lambda row: one_line(row["reason"], 80)),
)
_SHOW = (
    Column("letter", "dead_letter_id"),
    Column("status", "status"),
    Column("at", "at"),
    Column("stream", lambda row: f"{row['stream']} {row['subject']}"),
    Column("project", "project"),
    Column("run", "run_id"),
    Column("effect", "effect_id"),
    Column("why", "reason"),
    Column("failures", "failures"),
    Column("bytes", "size"),
    Column("settled", lambda row: f"{row['settled_at']} {row['settled_by']}" if row["settled_at"] else ""),
    Column("reason", "settled_reason"),
    Column("body", "body"),
)


def _trouble(row: Row) -> str:
    """Return why a queue does not move; nothing where it does, or where nothing waits."""
    if row["missing"]:
        return "the broker does not know it, or does not answer"
    return "nobody takes from it" if QueueState.model_validate(row).is_untaken else ""


_QUEUES = (
    Column("queue", lambda row: row["toolset"] or row["consumer"]),
    Column("stream", "stream"),
    Column("waits", "waits"),
    Column("in flight", "in_flight"),
    Column("again", "redelivered"),
    Column("listeners", "listeners"),
    Column("last taken", lambda row: str(row["last_taken_at"] or "never")[:19].replace("T", " ")),
    Column("", _trouble),
)
_STREAMS = (
    Column("stream", "stream"),
    Column("messages", "messages"),
    Column("full", lambda row: f"{100 * row['bytes'] / row['max_bytes']:.0f} %" if row["max_bytes"] > 0 else ""),
    Column("when full", lambda row: "refuses new ones" if row["discard"] == "new" else "drops old ones"),
)


@app.command(name="list", help_epilogue=examples("towpath queues list", "towpath queues list -o json"))
async def list_queues(*, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List the queues of the project's toolsets; an operator of the platform also sees those that all share."""
    async with common.connect() as client:
        found = await client.queues.list()
    out, answer = common.out(), found.model_dump(mode="json")
    if out.format in {"json", "yaml"}:
        out.data(answer)
        return
    out.rows(
        "queues",
        answer["queues"],
        _QUEUES,
        empty="There are no queues: no worker has offered a tool. Start one: towpath worker MODULE.",
    )
    if answer["streams"] and out.for_people:
        out.write("")
        out.rows("streams", answer["streams"], _STREAMS, empty="")
    if answer["left_out"]:
        print_notice(f"{answer['left_out']} more toolsets are not listed")


@app.command(help_epilogue=examples("towpath queues lag", "towpath queues lag --over 100 -o json"))
async def lag(*, over: int = 0, common: ConnectionOptions = CONNECTION_OPTIONS) -> int:
    """List queues in which more waits than is allowed; the exit code is 1 where there is one, so that a script can ask.

    Args:
        over: How many may wait.
    """
    async with common.connect() as client:
        found = await client.queues.list()
    rows = [one.model_dump(mode="json") for one in found.queues]
    late = sorted((row for row in rows if row["missing"] or row["waits"] > over), key=lambda row: -row["waits"])
    common.out().rows("queues", late, _QUEUES, empty=f"In none of {len(rows)} queues more than {over} wait.")
    return RUN_FAILED if late else OK


@dead.command(
    name="list", help_epilogue=examples("towpath queues dead list", "towpath queues dead list --stream INBOX -o json")
)
async def list_letters(
    *,
    status: Literal["dead", "requeued", "discarded"] = "dead",
    stream: str | None = None,
    limit: int = 50,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """List dead letters, newest first.

    Args:
        status: dead, requeued or discarded.
        stream: Only letters of this stream: TASKS, INBOX, DECIDE, TOOLREQ, TOOLEXEC or TOOLOUT.
        limit: How many, at most 200.
    """
    async with common.connect() as client:
        page = await client.dead_letters.list(status=status, stream=stream, limit=limit)
    rows = [letter.model_dump(mode="json", exclude={"body"}) for letter in page.letters]
    common.out().rows(
        "letters", rows, _LIST, empty="There are no such dead letters. What else may hold a run up: towpath doctor."
    )


@dead.command(help_epilogue=examples("towpath queues dead show 17", "towpath queues dead show 17 -o json"))
async def show(letter: int, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show a dead letter with its body.

    Args:
        letter: Its number.
    """
    async with common.connect() as client:
        found = await client.dead_letters.show(letter)
    common.out().record(found.model_dump(mode="json"), _SHOW)


@dead.command(
    help_epilogue=examples(
        "towpath queues dead requeue 17 --reason 'the worker is repaired'",
        "towpath queues dead requeue 17 --reason repaired -o json",
    )
)
async def requeue(letter: int, /, *, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Put the message back where it came from, once.

    Args:
        letter: Its number.
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        done = await client.dead_letters.requeue(letter, reason)
    common.out().record(done.model_dump(mode="json", exclude={"schema_version"}), (Column("done", "detail"),))


@dead.command(
    help_epilogue=examples(
        "towpath queues dead discard 17 --reason 'sent by a broken script'",
        "towpath queues dead discard 17 --reason 'a test' -o json",
    )
)
async def discard(letter: int, /, *, reason: str, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Settle the letter without sending it; it stays readable.

    Args:
        letter: Its number.
        reason: Why; it stands in the audit.
    """
    async with common.connect() as client:
        done = await client.dead_letters.discard(letter, reason)
    common.out().record(done.model_dump(mode="json", exclude={"schema_version"}), (Column("done", "detail"),))
