"""Documents to write and read, and what reviewers measure them by.

Documents are files in `.towpath/document_pipeline` below the folder the worker was started in; `PIPELINE_FOLDER` names
another. What is measured here is small and real: figures against a table, the length of sentences, words that promise.
"""

import re
from pathlib import Path

from pydantic import BaseModel
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath import ToolError, tool

FIGURES = {"lock": "built in 1824", "tour": "90 minutes, 12 EUR", "boat": "seats 20"}
PROMISES = ("guarantee", "guaranteed", "always", "never", "completely safe")
LONG_SENTENCE = 25
"""Words; what is longer is read twice."""


class PipelineSettings(BaseSettings):
    """Where documents are kept; read from PIPELINE_FOLDER."""

    model_config = SettingsConfigDict(env_prefix="PIPELINE_")

    folder: Path = Path(".towpath/document_pipeline")


class Style(BaseModel):
    """How a document reads."""

    sentences: int
    too_long: list[str]


def document(name: str) -> Path:
    """Return the file of a document; raises ToolError for what is no name of one."""
    if not re.fullmatch(r"[a-z-]{1,40}", name):
        raise ToolError("name_invalid", f"{name!r} is no name of a document: use a-z and dashes.")
    return PipelineSettings().folder / f"{name}.md"


def text_of(name: str) -> str:
    """Return the text of a document; raises ToolError `document_unknown`."""
    path = document(name)
    if not path.is_file():
        raise ToolError("document_unknown", f"There is no document {name!r}.")
    return path.read_text("utf-8")


@tool(name="document.write", toolset="pipeline", effect_class="idempotent", summary="Write {name}")
def write(name: str, text: str) -> str:
    """Write a document; one of that name is replaced.

    Args:
        name: Letters and dashes.
        text: All of it.
    """
    path = document(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return f"{name} is written, {len(text)} characters."


@tool(name="document.read", toolset="pipeline", effect_class="pure", summary="Read {name}")
def read(name: str) -> str:
    """Return the text of a document.

    Args:
        name: Its name.
    """
    return text_of(name)


@tool(name="facts.look_up", toolset="pipeline", effect_class="pure", summary="Look up {subject}")
def look_up(subject: str) -> str:
    """Return what the museum's books say of a subject.

    Args:
        subject: One word, such as lock, tour or boat.
    """
    if subject not in FIGURES:
        raise ToolError("subject_unknown", f"The books say nothing of {subject!r}; they have {', '.join(FIGURES)}.")
    return FIGURES[subject]


@tool(name="style.measure", toolset="pipeline", effect_class="pure", summary="Measure {name}")
def measure(name: str) -> Style:
    """Say which sentences of a document are too long.

    Args:
        name: Its name.
    """
    sentences = [one for one in re.split(r"(?<=[.!?])\s+", text_of(name).strip()) if one]
    return Style(sentences=len(sentences), too_long=[one for one in sentences if len(one.split()) > LONG_SENTENCE])


@tool(name="legal.scan", toolset="pipeline", effect_class="pure", summary="Scan {name}")
def scan(name: str) -> list[str]:
    """Return the words of a document that promise more than anybody can keep.

    Args:
        name: Its name.
    """
    text = text_of(name).lower()
    return [word for word in PROMISES if re.search(rf"\b{word}\b", text)]
