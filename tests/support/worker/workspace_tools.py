"""Tools of a worker that work with the files of a run."""

from towpath import ToolContext, ToolError, tool


@tool(toolset="desk", effect_class="pure", name="desk.count", workspace="read")
def count(context: ToolContext) -> dict[str, int]:
    """Count the files, and the lines in them."""
    assert context.workspace is not None
    texts = [place.read_text() for place in context.workspace.rglob("*") if place.is_file()]
    return {"files": len(texts), "lines": sum(text.count("\n") for text in texts)}


@tool(toolset="desk", effect_class="idempotent", name="desk.shout", workspace="scratch")
def shout(context: ToolContext, path: str, into: str) -> str:
    """Write a file again in capitals, and remove the old one.

    Args:
        path: The file.
        into: Where it goes.
    """
    assert context.workspace is not None
    old, new = context.workspace / path, context.workspace / into
    new.parent.mkdir(parents=True, exist_ok=True)
    new.write_text(old.read_text().upper())
    old.chmod(0o644)
    old.unlink()
    return into


@tool(toolset="desk", effect_class="pure", name="desk.refuse")
def refuse(why: str) -> str:
    """Fail, always.

    Args:
        why: What it says.
    """
    raise ToolError("refused", why)
