"""Finds the defaults and caps of the product by syntax tree, and the mutants of each.

Such values are: numbers, durations and sizes in upper-case variables (and those in a mapping or tuple of them),
defaults of fields that are numbers, switches, durations or members of an enum or a `Literal`, defaults of arguments of
the public SDK and of HTTP operations that are numbers or switches, and what `Field(ge=…, max_length=…)` bounds.

A value is named `PACKAGE:NAME`, as symbols are elsewhere here: `towpath_tas:TasSettings.batch_size`,
`towpath:connect(timeout_s)`, `towpath_contracts:Token[max_length]`. Where a package has two, the module is named too.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from tests.mutation.symbols import statements_of
from tests.mutation.values.literals import Number, derived_mutants, number, plain_mutants
from tests.support.places import ROOT

from towpath_fabric import garbage_collector

Kind = Literal["constant", "default", "argument", "limit"]
LIMIT_WORDS = frozenset({"ge", "gt", "le", "lt", "max_length", "min_length", "multiple_of"})
UPPER_WORDS = frozenset({"le", "lt"})
_FIELD_CALLS = frozenset({"Field", "field", "Query", "Path", "Body", "Header"})
_SDK = "towpath"
_HTTP = "towpath_gateway"


@dataclass(frozen=True, kw_only=True)
class Value:
    """A default or a cap: where its code stands in its module, and what it is changed into."""

    name: str
    kind: Kind
    path: Path
    module: str
    owner: str
    """The variable, `Class.field` or `function(argument)`, without the package."""
    span: tuple[int, int]
    """The bytes of the file that are its code."""
    code: str
    mutants: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words that a test of it would hold, the most telling last: class and field, or variable."""
        return tuple(word for word in self.owner.replace("(", ".").rstrip(")").split(".") if word)


class _Choices(NamedTuple):
    """Members of enums, and of type aliases that are a `Literal`, by the names of the classes and aliases."""

    enums: Mapping[str, list[str]]
    literals: Mapping[str, list[str]]


class _Place(NamedTuple):
    """Something that has a name and may hold a value, its annotation, and limits."""

    owner: str
    kind: Kind
    value: ast.expr | None
    annotation: ast.expr | None


def product_files(root: Path = ROOT) -> list[Path]:
    """Return the modules of the product."""
    return sorted(path for part in ("libs", "services") for path in (root / part).rglob("*.py"))


def module_name(path: Path, root: Path = ROOT) -> str:
    """Return under which name *path*, below `libs`, `services` or `tests`, is imported."""
    parts = path.relative_to(root).with_suffix("").parts
    parts = parts if parts[0] == "tests" else parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def inventory(root: Path = ROOT) -> list[Value]:
    """Return every value of the product, in the order of the files, each under a name of its own."""
    with garbage_collector.paused():  # trees are many small objects, and each look for cycles goes through all of them
        return _inventory(root)


def _inventory(root: Path) -> list[Value]:
    sources = [(path, path.read_bytes()) for path in product_files(root)]
    trees = [(path, source, ast.parse(source)) for path, source in sources]
    choices = _choices([tree for _, _, tree in trees])
    found: list[Value] = []
    for path, source, tree in trees:
        module = module_name(path, root)
        places = _places(tree.body, "")
        found += [
            _value(path, module, source, place.owner, kind, node, mutants, label)
            for place in places
            for kind, label, node, mutants in _of(place, choices, module.partition(".")[0])
        ]
    return _told_apart(found)


def _told_apart(found: list[Value]) -> list[Value]:
    shared = {name for name, count in Counter(value.name for value in found).items() if count > 1}
    longer = [
        replace(value, name=f"{value.module}:{value.name.partition(':')[2]}") if value.name in shared else value
        for value in found
    ]
    seen: Counter[str] = Counter()
    result = []
    for value in longer:
        seen[value.name] += 1
        again = seen[value.name]
        result.append(value if again == 1 else replace(value, name=f"{value.name}#{again}"))
    return result


def _value(
    path: Path,
    module: str,
    source: bytes,
    owner: str,
    kind: Kind,
    node: ast.expr,
    mutants: tuple[str, ...],
    label: str,
) -> Value:
    lines = source.splitlines(keepends=True)
    start = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: (node.end_lineno or node.lineno) - 1])) + (node.end_col_offset or 0)
    return Value(
        name=f"{module.partition('.')[0]}:{owner}{label}",
        kind=kind,
        path=path,
        module=module,
        owner=owner,
        span=(start, end),
        code=source[start:end].decode(),
        mutants=mutants,
    )


def _choices(trees: Sequence[ast.Module]) -> _Choices:
    enums: dict[str, list[str]] = {}
    literals: dict[str, list[str]] = {}
    for tree in trees:
        for node in tree.body:
            match node:
                case ast.ClassDef(bases=bases) if any("Enum" in ast.unparse(base) for base in bases):
                    enums[node.name] = [
                        target.id
                        for part in node.body
                        if isinstance(part, ast.Assign)
                        for target in part.targets
                        if isinstance(target, ast.Name)
                    ]
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                ):
                    if members := _literal_members(value):
                        literals[name] = members
    return _Choices(enums, literals)


def _literal_members(annotation: ast.expr) -> list[str]:
    return [
        part.value
        for node in ast.walk(annotation)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("Literal")
        for part in ast.walk(node.slice)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]


def _places(body: list[ast.stmt], prefix: str, *, in_class: bool = False) -> Iterator[_Place]:
    for node in statements_of(body):
        match node:
            case ast.ClassDef():
                yield from _places(node.body, f"{prefix}{node.name}.", in_class=True)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if not any(ast.unparse(one).endswith("overload") for one in node.decorator_list):
                    yield from _arguments(node, prefix)
                inner = [
                    part
                    for part in node.body
                    if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
                ]
                yield from _places(inner, f"{prefix}{node.name}.")
            case ast.AnnAssign(target=ast.Name(id=name)):
                kind: Kind = "default" if in_class else "constant"
                yield _Place(f"{prefix}{name}", kind, node.value, node.annotation)
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield _Place(f"{prefix}{name}", "constant", node.value, None)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef, prefix: str) -> Iterator[_Place]:
    plain = [*node.args.posonlyargs, *node.args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain) - len(node.args.defaults)), *node.args.defaults]
    for argument, default in zip([*plain, *node.args.kwonlyargs], [*defaults, *node.args.kw_defaults], strict=True):
        yield _Place(f"{prefix}{node.name}({argument.arg})", "argument", default, argument.annotation)


Found = tuple[Kind, str, ast.expr, tuple[str, ...]]


def _of(place: _Place, choices: _Choices, package: str) -> Iterator[Found]:
    limits = list(_limits(place))
    most = min(
        (found for word, node in limits if word in UPPER_WORDS and (found := number(node)) is not None), default=None
    )
    if place.kind != "argument" or _users_give(place, package):
        yield from _defaults(place, choices, most)
    again: Counter[str] = Counter()
    for word, node in limits:
        mutants = plain_mutants(node, name=word, cap=True) or derived_mutants(node, annotation=ast.Name("int"))
        again[word] += 1
        label = f"[{word}]" if again[word] == 1 else f"[{word}]#{again[word]}"
        if mutants:
            yield "limit", label, node, mutants


def _limits(place: _Place) -> Iterator[tuple[str, ast.expr]]:
    for whole in (place.annotation, place.value):
        for node in ast.walk(whole) if whole is not None else ():
            if isinstance(node, ast.Call):
                yield from ((word.arg, word.value) for word in node.keywords if word.arg in LIMIT_WORDS)


def _defaults(place: _Place, choices: _Choices, most: Number | None) -> Iterator[Found]:
    node, annotation = place.value, place.annotation
    if node is None:
        return
    last = place.owner.rpartition(".")[2]
    if place.kind == "constant" and not last.isupper():
        return
    node = _given_default(node)
    if node is None:
        return
    mutants = plain_mutants(node, name=last, most=most)
    if not mutants and place.kind == "default":
        mutants = derived_mutants(node, annotation=annotation) or _members(node, annotation, choices)
    if not mutants and place.kind == "constant":
        yield from _entries(node)
        mutants = derived_mutants(node)
    if mutants:
        yield place.kind, "", node, mutants


def _users_give(place: _Place, package: str) -> bool:
    """Return whether an argument is one of a public function of the SDK, or of an HTTP operation."""
    if package == _HTTP:
        return place.annotation is not None and "Query" in ast.unparse(place.annotation)
    names = place.owner.partition("(")[0].split(".")
    return package == _SDK and not any(name.startswith("_") for name in names)


def _given_default(node: ast.expr) -> ast.expr | None:
    """Return the default within `Field(…)`; None where that has none."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _FIELD_CALLS:
            named = [word.value for word in node.keywords if word.arg == "default"]
            return next(iter([*node.args[:1], *named]), None)
    return node


def _members(node: ast.expr, annotation: ast.expr | None, choices: _Choices) -> tuple[str, ...]:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=member) if member in choices.enums.get(name, ()):
            others = [one for one in choices.enums[name] if one != member]
            return tuple(f"{name}.{one}" for one in others[:1])
        case ast.Constant(value=str(text)) if annotation is not None:
            names = [part.id for part in ast.walk(annotation) if isinstance(part, ast.Name)]
            members = [
                *_literal_members(annotation),
                *(one for name in names for one in choices.literals.get(name, ())),
            ]
            others = [one for one in members if one != text]
            return tuple(repr(one) for one in others[:1]) if text in members else ()
    return ()


def _entries(node: ast.expr) -> Iterator[Found]:
    """Return the numbers of a mapping; one that holds mappings again is no list of values."""
    match node:
        case ast.Call(args=[ast.Dict() as held], keywords=[]) | (ast.Dict() as held):
            for key, value in zip(held.keys, held.values, strict=True):
                mutants = plain_mutants(value, name="") if key is not None else ()
                if key is not None and mutants:
                    label = key.value if isinstance(key, ast.Constant) else ast.unparse(key)
                    yield "constant", f"[{label}]", value, mutants


def mutated_source(path: Path, changes: Sequence[tuple[Value, str]]) -> bytes:
    """Return what *path* holds with each of *changes* made, every line at the number that it has."""
    source = path.read_bytes()
    for value, mutant in sorted(changes, key=lambda change: change[0].span, reverse=True):
        start, end = value.span
        lines = b"\n" * source[start:end].count(b"\n")
        source = source[:start] + b"(" + mutant.encode() + lines + b")" + source[end:]
    return source
