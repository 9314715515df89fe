"""Compares the patterns of rules with each other and with known names.

`covers` is always right when it says yes. It may say no where only a closer look would find that one pattern covers the
other: its results are used for warnings only.
"""

from collections.abc import Collection, Iterable

from towpath_contracts.tools.calls import ToolSpec
from towpath_tas.core.policy.matrix import Rule, glob_matches, names_discovered

_SIGNS = "*?["


def is_pattern(text: str) -> bool:
    """Return whether *text* is more than a plain name."""
    return any(sign in text for sign in _SIGNS)


def covers(wide: str, narrow: str) -> bool:
    """Return whether *wide* matches everything that *narrow* matches."""
    if wide in ("*", narrow):
        return True
    if not is_pattern(narrow):
        return glob_matches(wide, narrow)
    if "?" in wide or "[" in wide or "[" in narrow:
        return False
    return glob_matches(wide, narrow)  # what `*` of the narrow one matches, a `*` of the wide one matches


def matching(pattern: str, names: Collection[str]) -> list[str]:
    """Return those of *names* that *pattern* matches."""
    if not is_pattern(pattern):
        return [pattern] if pattern in names else []
    return [name for name in names if glob_matches(pattern, name)]


def opened_by_pattern(rules: Iterable[Rule], project: str, spec: ToolSpec) -> Rule | None:
    """Return a rule whose pattern, and nothing else, lets agents of *project* call *spec*; None where there is none.

    Nobody who wrote the *rules* has to have heard of that tool. A rule of any effect that names it shows that they had.
    """
    opening = None
    for rule in rules:
        if not glob_matches(rule.project, project):
            continue
        if rule.tool == spec.name:
            return None
        fits = glob_matches(rule.tool, spec.name) and glob_matches(rule.operation, spec.operation)
        if fits and rule.effect == "allow" and opening is None and (not spec.discovered or names_discovered(rule)):
            opening = rule
    return opening


def simplified(pattern: str) -> str:
    """Return the simplest form of *pattern*: `**` is `*`, `[a]` is `a`, `*?` is `?*`."""
    pieces = [piece[1] if _is_one_letter(piece) else piece for piece in _pieces(pattern)]
    changed = True
    while changed:
        changed = False
        for place in range(len(pieces) - 1):
            if pieces[place : place + 2] == ["*", "*"]:
                del pieces[place]
            elif pieces[place : place + 2] == ["*", "?"]:
                pieces[place : place + 2] = ["?", "*"]
            else:
                continue
            changed = True
            break
    return "".join(pieces)


def has_unclosed_bracket(pattern: str) -> bool:
    """Return whether *pattern* has a `[` without `]`: that matches only itself, and no name contains it."""
    place = pattern.find("[")
    while place >= 0:
        start = place + 2 if pattern[place + 1 : place + 2] == "!" else place + 1
        end = pattern.find("]", start + 1)
        if end < 0:
            return True
        place = pattern.find("[", end)
    return False


def _pieces(pattern: str) -> list[str]:
    """Return the letters, wildcards and classes (`[…]`) of *pattern*; an unclosed class is letters."""
    pieces, place = [], 0
    while place < len(pattern):
        end = place + 1
        if pattern[place] == "[":
            start = place + 2 if pattern[place + 1 : place + 2] == "!" else place + 1
            end = pattern.find("]", start + 1) + 1 or place + 1  # the first letter of a class may be a `]` itself
        pieces.append(pattern[place:end])
        place = end
    return pieces


def _is_one_letter(piece: str) -> bool:
    return len(piece) == 3 and piece[0] == "[" and piece[1] not in "!*?["
