"""A small MCP server over stdio: notes in a file, found by their words."""

import json
import os
from pathlib import Path
from typing import Any

from mcp.server import MCPServer

server = MCPServer("notes")
PLACE = Path(os.environ.get("NOTES_FILE", "notes.json"))  # noqa: TID251 - this is the server's own program


def _notes() -> list[str]:
    found: list[str] = json.loads(PLACE.read_text("utf-8")) if PLACE.exists() else []
    return found


@server.tool()
def find(words: str) -> dict[str, Any]:
    """Return the notes that hold all of the words.

    Args:
        words: What to look for, separated by spaces; nothing finds every note.
    """
    wanted = words.lower().split()
    return {"notes": [note for note in _notes() if all(word in note.lower() for word in wanted)]}


@server.tool()
def add(text: str) -> dict[str, Any]:
    """Write a note down.

    Args:
        text: The note.
    """
    notes = [*_notes(), text]
    PLACE.write_text(json.dumps(notes), "utf-8")
    return {"notes": len(notes)}


if __name__ == "__main__":
    server.run()
