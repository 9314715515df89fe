"""Tools that networks of the pages have, beside those of the examples."""

from towpath import tool


@tool(name="web.search", toolset="web", effect_class="pure", operation="read")
def search(words: str) -> str:
    """Search."""
    return f"nothing about {words}"


@tool(name="mail.send", toolset="web", effect_class="idempotent", operation="send", sinks=["to"])
def send(to: str) -> str:
    """Send a mail."""
    return f"sent to {to}"
