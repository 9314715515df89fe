"""`towpath erasures`: what somebody wants erased; confirmed by another person, or withdrawn."""

from typing import Annotated
from uuid import UUID

from cyclopts import App, Parameter

from towpath.cli.shared import short_ids
from towpath.cli.shared.confirmation import is_interactive, prompt
from towpath.cli.shared.erasure_columns import ERASURE, ONE_ERASURE, erased_things
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import print_notice
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.tools.erasures import ErasureStatus, ErasureView

app = App(
    name="erasures",
    help="See what is to be erased; confirm or withdraw it.",
    help_epilogue=examples("towpath erasures list --status requested", "towpath erasures confirm 0192f3a0-…"),
)


@app.command(
    name="list", help_epilogue=examples("towpath erasures list --status requested", "towpath erasures list -o json")
)
async def list_erasures(
    *,
    status: ErasureStatus | None = None,
    before: UUID | None = None,
    limit: int = 100,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """List erasures, newest first.

    Args:
        status: requested, confirmed (being carried out), done or withdrawn.
        before: Older than this one: the next_before of the page before.
        limit: How many, at most 500.
    """
    async with common.connect() as client:
        page = await client.audit.erasures(status=status, before=before, limit=limit)
    out = common.out()
    rows = [one.model_dump(mode="json") for one in page.erasures]
    out.rows("erasures", rows, ERASURE, empty="Nothing is to be erased. Ask for it: towpath runs erase RUN.")
    if page.next_before is not None and out.for_people:
        out.write(f"more: --before {page.next_before}", "dim")


@app.command(help_epilogue=examples("towpath erasures show 0192f3a0-…", "towpath erasures show 0192f3a0-… -o json"))
async def show(erasure: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Show who wants what erased, and how far it is.

    Args:
        erasure: Its id, or its beginning or end.
    """
    async with common.connect() as client:
        _show(common, await client.audit.erasure(await short_ids.resolve_erasure_id(client, erasure)))


@app.command(help_epilogue=examples("towpath erasures confirm 0192f3a0-…", "towpath erasures confirm 0192f3a0-… --yes"))
async def confirm(
    erasure: str,
    /,
    *,
    yes: Annotated[bool, Parameter(negative="")] = False,
    common: ConnectionOptions = CONNECTION_OPTIONS,
) -> None:
    """Have something erased that another person asked for; your own request takes its delay.

    Nothing brings it back, so a person at a terminal is asked first; anybody else has to say --yes.

    Args:
        erasure: Its id, or its beginning or end.
        yes: Don't ask; a script has to say it.
    """
    if not yes and not is_interactive():
        detail = "erased is gone for ever, and nobody is at a terminal to be asked"
        raise ProblemError(problem("request_invalid", detail, remedy="Confirm it without being asked: --yes."))
    async with common.connect() as client:
        erasure_id = await short_ids.resolve_erasure_id(client, erasure)
        if not yes:
            asked = (await client.audit.erasure(erasure_id)).model_dump(mode="json")
            which = erased_things(asked) if asked["kind"] == "run" else f"the payloads of {erased_things(asked)}"
            for run_id in asked["run_ids"] if asked["runs"] > 1 else ():
                print_notice(f"to be erased: run {run_id}")
            words = f"Erase {which} for ever, as {asked['requested_by']} asked? [y/N] "
            if prompt(words).strip().lower() not in {"y", "yes"}:
                raise ProblemError(problem("request_invalid", "nothing was erased", remedy="Answer y to erase it."))
        _show(common, await client.audit.confirm_erasure(erasure_id))


@app.command(
    help_epilogue=examples("towpath erasures withdraw 0192f3a0-…", "towpath erasures withdraw 0192f3a0-… -o json")
)
async def withdraw(erasure: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Drop a request that nobody has confirmed.

    Args:
        erasure: Its id, or its beginning or end.
    """
    async with common.connect() as client:
        _show(common, await client.audit.withdraw_erasure(await short_ids.resolve_erasure_id(client, erasure)))


def _show(common: ConnectionOptions, erasure: ErasureView) -> None:
    common.out().record(erasure.model_dump(mode="json"), ONE_ERASURE)
