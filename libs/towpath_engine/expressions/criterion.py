"""Compiles acceptance criteria written in CEL, the Common Expression Language, and evaluates them.

A criterion is met only where it is exactly true. An error, a missing name or any other value is not true. Nothing that
a caller writes can raise here, read a clock or run long: at most one macro is allowed, over lists that are bounded.
Other expensive expressions are refused at submit (`towpath_engine.expressions.costs`).
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from towpath_contracts.problems.cel_faults import CEL_LITERAL, compile_cel
from towpath_contracts.problems.cel_library import cel_library
from towpath_contracts.tools.reports import TEST_MEMBERS
from towpath_engine.expressions import costs
from towpath_engine.expressions.costs import expensive_part

VARIABLES = frozenset({"artifacts", "tests", "workspace", "last_output", "results", "claimed"})
"""What a criterion sees; `towpath_engine.rules.criteria` describes each of them."""

MEMBERS = {"tests": TEST_MEMBERS, "workspace": ("files",)}
"""The members of what has fixed ones: any other name is a slip that would never be met."""

FILE_MEMBERS = ("size", "digest")

MAX_COMPILED = 1_024
"""Compiled criteria that are kept; they come with every task."""

MAX_FAULTS = 4_096
"""Answers about criteria that are kept: one that can't be compiled takes as long each time that it is tried."""

FILES = "workspace_files"
"""What an expression in truth reads for `workspace.files`: a member is copied each time that it is looked at."""

_MACRO = re.compile(r"\.\s*(?:all|exists|exists_one|map|filter)\s*\(\s*([A-Za-z_]\w*)\s*,")
_ANY_MACRO = re.compile(r"\b(?:all|exists|exists_one|map|filter)\s*\(")
_OPERATOR = re.compile(r"^[^A-Za-z]|@")
_MEMBER = re.compile(
    r'(?<![\w.])(tests|workspace)\s*(?:\.\s*([A-Za-z_]\w*)(?!\w|\s*\()|\[\s*"(\w+)"\s*\])'
    r'(?:(?<=files)\s*\[\s*"\w*"\s*\]\s*\.\s*([A-Za-z_]\w*)(?!\w|\s*\())?'
)
_LITERAL_OR_FILES = re.compile(
    rf"{CEL_LITERAL.pattern}|\bhas\s*\([^()]*\)|(?<![\w.])(?P<files>workspace\s*\.\s*files)(?!\w|\s*\()", re.DOTALL
)
_TYPES = frozenset({"bool", "double", "int", "list", "map", "null_type", "string", "type", "uint"})
_FUNCTIONS = frozenset(
    {
        *("has", "size", "contains", "startsWith", "endsWith", "matches", "type", "dyn", "min", "max"),
        *("int", "uint", "double", "string", "bool"),
    }
)


class CompiledCriterion:
    """One acceptance criterion in CEL, compiled; `met` evaluates it."""

    __slots__ = ("_needs", "_program", "copies_files", "names", "work")

    def __init__(self, text: str) -> None:
        """Compile *text*; raises ValueError with what is wrong."""
        bare = CEL_LITERAL.sub(" ", text)  # a comment between a name and its bracket would hide it
        if len(_ANY_MACRO.findall(bare)) > 1:
            msg = "a criterion may use all, exists, exists_one, map or filter once: give two criteria instead"
            raise ValueError(msg)
        self._program: Any = compile_cel(text, cel_library().compile)
        self.names = VARIABLES & set(self._program.variables())
        unknown = set(self._program.variables()) - VARIABLES - _TYPES - set(_MACRO.findall(text))
        if unknown:
            seen = ", ".join(sorted(VARIABLES))
            msg = f"unknown name {', '.join(sorted(unknown))}: a criterion sees {seen}"
            raise ValueError(msg)
        if not self.names:
            msg = "the criterion looks at nothing that happens in the run, so it is always or never met"
            raise ValueError(msg)
        strange = {name for name in self._program.functions() if not _OPERATOR.search(name)} - _FUNCTIONS
        if strange:
            msg = f"unknown function {', '.join(sorted(strange))}"
            raise ValueError(msg)
        self.work = costs.work_of(text, CEL_LITERAL, VARIABLES)
        with_files = _with_files(text)
        if with_files != text:  # compiling takes long, and what was compiled is not always found again
            self._program = cel_library().compile(with_files)
        self._needs = (VARIABLES | {FILES}) & set(self._program.variables())
        self.copies_files = "workspace" in self._needs and _ANY_MACRO.search(bare) is not None

    def met(self, scene: Mapping[str, Any]) -> bool:
        """Return whether the criterion is exactly true of *scene*."""
        seen = {name: scene["workspace"]["files"] if name == FILES else scene[name] for name in self._needs}
        try:
            return self._program.execute(seen) is True
        except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError):
            return False


def _with_files(text: str) -> str:
    """Return *text* with the files under a name of their own, unless that could mean another thing there."""
    if FILES in text or "workspace" in _MACRO.findall(text):
        return text
    return _LITERAL_OR_FILES.sub(lambda found: FILES if found["files"] else found[0], text)


@functools.lru_cache(maxsize=MAX_COMPILED)
def compile_criterion(text: str) -> CompiledCriterion:
    """Compile a criterion; raises ValueError with what is wrong."""
    return CompiledCriterion(text)


def names_in(text: str) -> frozenset[str]:
    """Return what of the scene a criterion looks at; raises ValueError where it can't be compiled."""
    return compile_criterion(text).names


@functools.lru_cache(maxsize=MAX_FAULTS)
def fault_of(text: str) -> str:
    """Return what is wrong with a criterion, in one line; empty where nothing is."""
    try:
        compile_criterion(text)
    except ValueError as error:
        return str(error).partition("\n")[0]
    if compile_criterion(text).copies_files:
        return "beside a macro, write workspace.files, and no item of that name"
    return expensive_part(text, CEL_LITERAL, VARIABLES) or _strange_member(text)


def search_work(text: str) -> float:
    """Return the microseconds that searching with the pattern of a criterion takes at most; 0 where it has none."""
    return costs.search_work(text, CEL_LITERAL)


def _strange_member(text: str) -> str:
    """Name a misspelled member. Only at submit: a run that has begun keeps the criteria that it began with."""
    plain = CEL_LITERAL.sub(lambda found: f'"{word}"' if (word := found[0].strip("'\"")).isidentifier() else '""', text)
    bound = set(_MACRO.findall(text))
    for name, dotted, indexed, of_file in _MEMBER.findall(plain):
        member = dotted or indexed
        if name not in bound and member not in MEMBERS[name]:
            return f"{name} has no member {member}; it has: {', '.join(MEMBERS[name])}"
        if name not in bound and of_file and of_file not in FILE_MEMBERS:
            return f"a file of the workspace has no member {of_file}; it has: {', '.join(FILE_MEMBERS)}"
    return ""
