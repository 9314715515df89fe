"""Tools that say what they should keep: a secret of their environment, in an exception and in their log."""

import os

from towpath import ToolContext, tool

SECRET = "SHOP_API_TOKEN"


@tool(name="telltale.fail", effect_class="pure", toolset="telltale")
async def fail(ctx: ToolContext) -> str:
    """Fail as a library does that repeats what it was given."""
    ctx.log("connecting", url=f"https://shop:{os.environ[SECRET]}@shop.example")
    msg = f"401 for Authorization: Bearer {os.environ[SECRET]}"
    raise ConnectionError(msg)
