"""`towpath tools`: what the workers offer."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from towpath.cli.options import COMMON, Common, examples
from towpath.cli.output import Column

app = App(name="tools", help="Look at the tools that workers offer; decide those that wait.")

Version = Annotated[int, Parameter(name="--version")]


def _parameters(row: Any) -> str:
    required = set(row["parameters"].get("required", ()))
    names = row["parameters"].get("properties", {})
    return " ".join(name if name in required else f"[{name}]" for name in names)


@app.command(name="list", help_epilogue=examples("towpath tools list", "towpath tools list -o json"))
async def list_tools(*, common: Common = COMMON) -> None:
    """List the registered tools; whether an agent may use one is the matrix's business."""
    async with common.asking() as client:
        described = await client.tools.list()
    columns = (
        Column("tool", "name"),
        Column("version", lambda row: described.versions.get(row["name"])),
        Column("toolset", "toolset"),
        Column("effect", "effect_class"),
        Column("parameters", _parameters),
        Column("description", lambda row: row["description"].partition("\n")[0][:60]),
    )
    rows = [spec.model_dump(mode="json") for spec in described.tools]
    common.out().rows("tools", rows, columns, empty="No worker has offered a tool. Start one: towpath worker MODULE.")


@app.command(help_epilogue=examples("towpath tools accept orders.find --version 1 --reason 'reads our own database'"))
async def accept(name: str, /, *, number: Version, reason: str = "", common: Common = COMMON) -> None:
    """Take a version of a tool that waits: a weaker effect class, trusted output, or another worker's tool.

    Args:
        name: The tool.
        number: Which version, as the worker's log names it.
        reason: Why; it stands in the audit.
    """
    await _decide(name, number, reason, common, accepted=True)


@app.command(help_epilogue=examples("towpath tools refuse orders.find --version 2 --reason 'it writes'"))
async def refuse(name: str, /, *, number: Version, reason: str, common: Common = COMMON) -> None:
    """Refuse a version of a tool that waits; the one before stays.

    Args:
        name: The tool.
        number: Which version, as the worker's log names it.
        reason: Why; it stands in the audit.
    """
    await _decide(name, number, reason, common, accepted=False)


async def _decide(name: str, number: int, reason: str, common: Common, *, accepted: bool) -> None:
    body = {"version": number, "accept": accepted, "reason": reason}
    async with common.asking() as client:
        await client.request("POST", f"/v1/tools/{name}/proposal", body=body)
    row = {"tool": name, "version": number, "accepted": accepted}
    common.out().record(row, [Column(title, title) for title in row])
