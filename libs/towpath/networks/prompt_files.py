"""Prompts that stand in files of their own: read where an agent says `prompt=Path(…)`.

A text is always the prompt itself. One that is the path of a file is most likely a mistake, which nobody would notice:
the model would be asked with the path.
"""

from pathlib import Path

from towpath.declared_places import DeclaredPlace
from towpath.errors import DeclarationError
from towpath.missing_files import missing_file

_ENDINGS = (".md", ".txt", ".jinja", ".j2", ".prompt")


def read_prompt_file(path: Path, agent: str, declared_at: DeclaredPlace | None) -> str:
    """Return the text of *path*, which is beside the file that declares the *agent*; raises DeclarationError."""
    beside = Path(declared_at.file).parent if declared_at is not None else Path()
    place = beside / path
    where = f"{declared_at}: " if declared_at is not None else ""
    try:
        return place.read_text("utf-8")
    except FileNotFoundError:
        said = missing_file(place)
    except (OSError, UnicodeDecodeError) as error:
        said = f"{place} can't be read: {error}"
    msg = f"{where}the prompt of agent {agent!r}: {said}"
    raise DeclarationError(msg)


def is_prompt_path(prompt: str) -> bool:
    """Return whether *prompt* is the path of a file, and not the text of one."""
    return prompt.endswith(_ENDINGS) and len(prompt.split()) == 1 and prompt not in _ENDINGS
