"""Tools that handle what a person may want gone: in arguments, results, large results and logs."""

from towpath import ToolContext, tool


@tool(name="private.look", effect_class="pure", toolset="private")
async def look(ctx: ToolContext, who: str) -> dict[str, str]:
    """Answer with what is known of somebody."""
    ctx.log("looking", who=who)
    return {"known": f"{who} lives in canary-result-street"}


@tool(name="private.dump", effect_class="pure", toolset="private")
async def dump(who: str) -> dict[str, str]:
    """Answer with more than a message holds."""
    return {"file": f"{who}: " + "canary-blob-line " * 10_000}
