"""How a cure is written in a file of a network, and how in a program that builds one.

The checks of a network know neither: they say both, as in `is_default: true` (in Python default=True). A program is
told the line, the agent or network, and the keyword; of the JSON that is made of it nobody has seen the paths.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from towpath.declared_places import DeclaredPlace
from towpath_contracts.problems.input_faults import UNNAMED, join_faults, names_word
from towpath_contracts.problems.registry import Problem, ProblemDetail, problem

_KEYWORDS = {
    "prompt_template": "prompt",
    "equipped_tools": "tools",
    "allowed_routes": "routes",
    "is_default": "default",
    "allow_respond": "can_respond",
    "respond_schema": "output",
    "respond_guidance": "guidance",
    "model_settings": "settings",
}
"""Of an `Agent`, by the field of the network that each becomes."""

_IN_A_FILE = ", or in YAML a dash before each entry"

_BOTH = re.compile(r"`\w+: true`(?P<between>[^`]*?) \(in Python (?P<keyword>\w+=True)\)")


def as_in_python(detail: str) -> str:
    """Return *detail* with keywords in the place of the fields of a file."""
    said = _BOTH.sub(r"\g<keyword>\g<between>", detail).replace(_IN_A_FILE, "")
    return said.replace(" of its prompt_template: ", " of its prompt: ")


def as_in_a_file(detail: str) -> str:
    """Return *detail* without the keywords of Python."""
    return _BOTH.sub(lambda both: both[0].rpartition(" (in Python")[0], detail)


@dataclass(frozen=True, slots=True)
class Declared:
    """A network or an agent of a program: its name, and the line that declares it."""

    name: str
    place: DeclaredPlace | None


def place_problems(found: Iterable[ProblemDetail], declared: Mapping[str, Declared]) -> Problem:
    """Return `network_invalid` with the line, the agent or network, and the keyword before every detail.

    *declared* is by JSON pointer, "" the network's. What is said in one line of the same field twice, as of the model
    of an agent and of its own network, is said once.
    """
    placed: dict[str, ProblemDetail] = {}
    for one in found:
        at = "/".join(one.pointer.split("/")[:3])
        at = at if at in declared else ""
        detail = _told(as_in_python(one.detail), one.pointer.removeprefix(at).split("/")[1:], declared[at])
        placed.setdefault(detail, one.model_copy(update={"detail": detail}))
    remedy = {"remedy": "Correct it, and try again."} if len(placed) == 1 else {}
    return problem("network_invalid", join_faults(placed), errors=tuple(placed.values()), **remedy)


def _told(detail: str, fields: list[str], declared: Declared) -> str:
    """Return *detail* behind its line, whose it is, and those of *fields*, as keywords, that it doesn't name itself."""
    said = detail.removeprefix(f"{declared.name}: ")
    place = "" if declared.place is None else str(declared.place)
    if not said.startswith(f"{declared.name} "):  # else it is a sentence about it
        keywords = [_KEYWORDS.get(one, one) for one in fields if one != "swarm" and one not in UNNAMED]
        said = f"{declared.name}: {name_keyword(said, keywords)}"
    return ": ".join(filter(None, (place, said)))


def name_keyword(detail: str, path: Iterable[str]) -> str:
    """Return *detail* behind the keyword that *path* begins with, and what it leads to; the last if it isn't named."""
    named = [one for one in path if not one.isdecimal()]
    if named and names_word(detail, named[-1]):
        named.pop()
    return ": ".join(filter(None, (".".join(named), detail)))
