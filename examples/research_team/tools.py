"""A small library to search and read, and a report to save.

Reports are files in `.towpath/research_team` below the folder the worker was started in; `RESEARCH_FOLDER` names
another.
"""

import re
from pathlib import Path

from pydantic import BaseModel
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath import ToolError, tool

NOTES = {
    "N1": ("What a heat pump costs", "A pump for a hall of 400 m2 costs 38,000 EUR with its installation."),
    "N2": ("A year of heating", "Oil took 6,900 EUR last year. A pump of that size takes 3,100 EUR of current."),
    "N3": ("The hall's walls", "Brick, 60 cm, dry. The radiators are large and do with water of 50 degrees."),
    "N4": ("Heat from the canal", "The canal keeps above 4 degrees all winter: water serves a pump better than air."),
    "N5": ("Letters of neighbours", "Two letters of March ask that no fan runs after ten at night."),
}


class ResearchSettings(BaseSettings):
    """Where reports are kept; read from RESEARCH_FOLDER."""

    model_config = SettingsConfigDict(env_prefix="RESEARCH_")

    folder: Path = Path(".towpath/research_team")


class Found(BaseModel):
    """A note that fits a search."""

    note_id: str
    title: str


@tool(name="library.search", toolset="research", effect_class="pure", summary="Search {words}")
def search(words: str) -> list[Found]:
    """Find notes that hold any of some words.

    Args:
        words: What to look for, separated by spaces.
    """
    wanted = {word.lower() for word in words.split()}
    return [
        Found(note_id=note_id, title=title)
        for note_id, (title, text) in NOTES.items()
        if wanted & set(re.findall(r"\w+", f"{title} {text}".lower()))
    ]


@tool(name="library.read", toolset="research", effect_class="pure", summary="Read {note_id}")
def read(note_id: str) -> str:
    """Return the text of a note.

    Args:
        note_id: Its id, as library.search shows it.
    """
    if note_id not in NOTES:
        raise ToolError("note_unknown", f"The library has no note {note_id}.", hint="Search for words of it.")
    return NOTES[note_id][1]


@tool(name="report.save", toolset="research", effect_class="idempotent", summary="Save {name}")
def save(name: str, text: str) -> str:
    """Save a report; one of that name is replaced.

    Args:
        name: What it is called: letters, digits and dashes.
        text: Markdown.
    """
    if not re.fullmatch(r"[a-z0-9-]{1,60}", name):
        raise ToolError("name_invalid", f"{name!r} is no name for a report: use a-z, 0-9 and dashes.")
    folder = ResearchSettings().folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.md").write_text(text, "utf-8")
    return f"{name}.md is saved, {len(text)} characters."
