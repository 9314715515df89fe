"""`towpath tools`: what the workers offer."""

from typing import Any

from cyclopts import App

from towpath.cli.options import COMMON, Common, examples
from towpath.cli.output import Column

app = App(name="tools", help="Look at the tools that workers offer.")


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
