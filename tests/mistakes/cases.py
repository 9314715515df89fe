"""Mistakes that people make, as data, and the golden file of what is said to each.

A file of an area has the right files once (`files`), and below `mistakes` what somebody did otherwise. A mistake has
either `run`, a command line, or `python`, a program of the user's, or `http`, a request as it goes over the wire, or
`saved`, the texts of a policy file that is followed, or `frozen`, a request while the database is stopped. Its `files`
are added to those of the area; `change` edits one of them (file, old text, new text). {data}, {port} and {nats_url}
stand for those of the platform that is asked.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.support.places import ROOT

FOLDER = Path(__file__).parent
GOLDEN = ROOT / "tests" / "golden" / "mistakes.txt"
KINDS = ("offline", "platform")
"""Mistakes that are noticed before a platform is asked, and those that one has to answer."""

WAYS = ("run", "python", "http", "saved", "frozen")
FIELDS = {"mistake", "files", "change", "environment", *WAYS}
HEADING = "== "
THEN = "--- then\n"
"""Between the texts of a policy file that are saved one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """One mistake: the files as they lie there, and what is done."""

    name: str
    """With the name of its area before it."""

    way: str
    text: str
    files: dict[str, str]
    added: tuple[str, ...] = ()
    """Files that only this mistake has."""

    change: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)


def mistakes_of(kind: str) -> list[Mistake]:
    """Return the mistakes of every area of *kind*."""
    return [one for path in sorted((FOLDER / kind).glob("*.yaml")) for one in _read_area(path)]


def _read_area(path: Path) -> list[Mistake]:
    content = yaml.safe_load(path.read_text("utf-8"))
    return [_mistake(path.stem, one, content.get("files", {})) for one in content["mistakes"]]


def _mistake(area: str, written: dict[str, Any], files: dict[str, str]) -> Mistake:
    unknown = written.keys() - FIELDS
    assert not unknown, f"{written['mistake']}: {unknown}"
    (way,) = (name for name in WAYS if name in written)
    lying = {**files, **written.get("files", {})}
    if "change" in written:
        file, old, new = written["change"]
        assert lying[file].count(old) == 1, f"{written['mistake']}: {old!r} has to stand in {file} once"
        lying[file] = lying[file].replace(old, new)
    return Mistake(
        name=f"{area}: {written['mistake']}",
        way=way,
        text=written[way],
        files=lying,
        added=tuple(written.get("files", ())),
        change=tuple(written.get("change", ())),
        environment=written.get("environment", {}),
    )


def section(mistake: Mistake, said: str) -> str:
    """Return how *mistake* is shown in the golden file: what was written and done, and what was *said*."""
    shown = []
    for name in mistake.added:
        shown += [f"| {name}:", *(f"|   {line}" for line in mistake.files[name].splitlines())]
    if mistake.change:
        file, old, new = mistake.change
        shown += [
            f"| {file}:",
            *(f"| - {one}" for one in old.splitlines()),
            *(f"| + {one}" for one in new.splitlines()),
        ]
    shown += [f"| {name}={value}" for name, value in mistake.environment.items()]
    prompt = "$ " if mistake.way == "run" else ""
    shown += [f"| {prompt}{line}".rstrip() for line in mistake.text.strip().splitlines()]
    text = "\n".join(shown).encode("utf-8", "backslashreplace").decode()
    return f"{HEADING}{mistake.name}\n{text}\n\n{said.strip()}\n"


def read_golden() -> dict[str, str]:
    """Return the sections of the golden file by the name of their mistake."""
    _, *sections = f"\n{GOLDEN.read_text('utf-8')}".split(f"\n{HEADING}")
    return {text.partition("\n")[0]: f"{HEADING}{text.rstrip()}\n" for text in sections}


def write_golden(mistakes: Iterable[Mistake], said: Mapping[str, str]) -> None:
    """Write the golden file."""
    text = "\n\n".join(section(one, said[one.name]) for one in mistakes)
    GOLDEN.write_text(f"{_HEAD}\n\n{text}", "utf-8")


_HEAD = """\
Mistakes that people make: what was written or done (after |), and all that is said then.
A message names the place, the cause and the cure. `uv run python -m tests.mistakes write` writes this file."""
