"""The tools of the long conversation: a page of 300 KB, and two small things. A tool worker runs this module."""

from towpath import tool

PAGE = "".join(f"[line {number:05}] {'x' * 45}\n" for number in range(5_000))


@tool(name="page.fetch", toolset="desk", effect_class="pure")
def fetch(text: str) -> str:
    """Fetch the page of that name."""
    return PAGE


@tool(name="note.add", toolset="desk", effect_class="idempotent")
def add(text: str) -> dict[str, str]:
    """Add a note."""
    return {"noted": text}


@tool(name="crm.lookup", toolset="desk", effect_class="pure")
def look_up(text: str) -> dict[str, str]:
    """Look a customer up."""
    return {"found": text}
