"""docs/reference/sdk.md: every public name of the SDK with its signature, what it does, and its methods."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import griffe
from tests.docs_site.reference.markdown_text import prose
from tests.support.places import ROOT

import towpath

_HEAD = """# Python SDK

Every name that `from towpath import …` has. Methods that are shown with `async` are awaited. With files to copy:
[tutorial](../tutorial.md); what each part is for: [tools](../tools.md), [networks](../networks.md),
[runs](../runs.md).
"""
_LINE = 100
_WAITING = re.compile(r"(?:waiting|iterating)\((\w+)\.\w+\)")


def sdk_page() -> str:
    """Return the page."""
    homes = towpath._HOMES
    packages = {
        name: griffe.load(name, search_paths=[ROOT / "libs"], resolve_aliases=True, resolve_external=False)
        for name in {home.partition(".")[0] for home in homes.values()}
    }
    parts = [_HEAD]
    for name in sorted(towpath.__all__, key=str.lower):
        found = _found(packages, f"{homes[name]}.{name}")
        parts += [f"## {name}", "", *_described(found, name, "###"), ""]
    return "\n".join(parts)


def _found(packages: Mapping[str, Any], path: str) -> Any:
    """Return what *path* names; of a name that a module has from another package what it is there."""
    package, _, rest = path.partition(".")
    found = packages[package][rest]
    return _found(packages, found.target_path) if found.is_alias else found


def _described(found: griffe.Object, name: str, level: str) -> Iterator[str]:
    if isinstance(found, griffe.Attribute):
        yield from _attribute(found, name)
    elif isinstance(found, griffe.Class):
        init = found.all_members.get("__init__")
        own = init if isinstance(init, griffe.Function) else None
        yield _python(_signature(own, name, skip_self=True) if own else _fields(found, name))
        yield prose(found.docstring.value if found.docstring else "")
        yield from _methods(found, level)
    elif isinstance(found, griffe.Function):
        yield _python(_signatures(found, name))
        yield prose(found.docstring.value if found.docstring else "")


def _attribute(found: griffe.Attribute, name: str) -> Iterator[str]:
    """An object of the package: what it is called like, and its methods."""
    value = str(found.value).partition("(")[0]
    kind = found.module.members.get(value)
    if isinstance(kind, griffe.Class):
        call = kind.members.get("__call__")
        if isinstance(call, griffe.Function):
            yield _python(_signatures(call, name, skip_self=True))
            yield prose(call.docstring.value if call.docstring else "")
        yield prose(kind.docstring.value if kind.docstring else "")
        yield from _methods(kind, "###", of=name)
    else:
        yield _python(f"{name} = {found.value}")


def _methods(found: griffe.Class, level: str, of: str = "") -> Iterator[str]:
    for name, member in sorted(found.members.items()):
        if name.startswith("_") or not isinstance(member, griffe.Function) or not member.docstring:
            continue
        shown = f"{of or found.name}.{name}"
        yield f"\n{level} {shown}\n"
        yield _python(_signatures(member, shown, skip_self="staticmethod" not in member.labels))
        yield prose(member.docstring.value)
    yield from _waiting_methods(found)


def _waiting_methods(found: griffe.Class) -> Iterator[str]:
    """Name the methods that are made of those of another class, with their parameters."""
    made: dict[str, list[str]] = {}
    for name, member in found.members.items():
        if isinstance(member, griffe.Attribute) and (call := _WAITING.match(str(member.value))):
            made.setdefault(call[1], []).append(f"`{name}`")
    for kind, names in made.items():
        yield f"\nWith the parameters and results of those of `{kind}`, without `await`: {', '.join(sorted(names))}.\n"


def _signatures(found: griffe.Function, name: str, *, skip_self: bool = False) -> str:
    forms = found.overloads or [found]
    return "\n".join(_signature(form, name, skip_self=skip_self) for form in forms)


def _signature(found: griffe.Function, name: str, *, skip_self: bool = False) -> str:
    """Return a signature as it is written, on one line or on one line for each parameter."""
    shown, star = [], False
    for parameter in list(found.parameters)[1 if skip_self else 0 :]:
        kind = parameter.kind
        if kind is griffe.ParameterKind.keyword_only and not star:
            shown.append("*")
            star = True
        star = star or kind is griffe.ParameterKind.var_positional
        head = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        annotation = f": {parameter.annotation}" if parameter.annotation else ""
        bare = parameter.default is None or head
        default = "" if bare else f" = {parameter.default}" if annotation else f"={parameter.default}"
        shown.append(f"{head}{parameter.name}{annotation}{default}")
    asynchronous = "async " if "async" in found.labels else ""
    returned = f" -> {found.returns}" if found.returns and found.name != "__init__" else ""
    line = f"{asynchronous}{name}({', '.join(shown)}){returned}"
    if len(line) <= _LINE:
        return line
    inner = "".join(f"    {parameter},\n" for parameter in shown)
    return f"{asynchronous}{name}(\n{inner}){returned}"


def _fields(found: griffe.Class, name: str) -> str:
    """Return the constructor of a class that has none of its own: its fields."""
    fields = [
        f"    {key}: {member.annotation}" + (f" = {member.value}" if member.value else "") + ",\n"
        for key, member in found.members.items()
        if isinstance(member, griffe.Attribute) and not key.startswith("_") and member.annotation
    ]
    return f"{name}(\n{''.join(fields)})" if fields else f"{name}(...)"


def _python(text: str) -> str:
    return f"```text\n{text}\n```\n"
