"""Tools that say what they should keep: a secret of their environment, in an exception and in their log."""

import os
from typing import Annotated

from towpath import Secret, ToolContext, tool

SECRET = "SHOP_API_TOKEN"
WORD = "SHOP_WORD"  # its name does not say that it is a secret; the declaration does


@tool(name="telltale.fail", effect_class="pure", toolset="telltale")
async def fail(ctx: ToolContext) -> str:
    """Fail as a library does that repeats what it was given."""
    ctx.log("connecting", url=f"https://shop:{os.environ[SECRET]}@shop.example")
    msg = f"401 for Authorization: Bearer {os.environ[SECRET]}"
    raise ConnectionError(msg)


@tool(name="telltale.whisper", effect_class="pure", toolset="telltale")
async def whisper(ctx: ToolContext, word: Annotated[str, Secret(f"env:{WORD}")]) -> dict[str, str]:
    """Answer with what the worker was trusted with."""
    ctx.log("whispering", word=word)
    return {"said": f"the word is {word}", word: "is the word"}
