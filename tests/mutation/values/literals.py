"""What a number, a switch, a duration, a size or a member of an enum is changed into.

The first mutant of a value is the coarse one: a number is doubled, a switch flipped, another member taken. Those of a
small cap that follow move its edge by one; they are only worth a run where the coarse one is noticed.
"""

import ast
import operator
import re
from collections.abc import Callable, Mapping

SMALL = 100
"""Up to here a cap is mutated by one, too: what counts steps or tries has an edge that people notice."""

_CAP = re.compile(
    r"MAX|MIN|MOST|LEAST|LIMIT|LONGEST|SHORTEST|LARGEST|SMALLEST|HIGHEST|LOWEST|ATTEMPTS|TRIES|CAP|max_|min_"
)
_SIZE = re.compile(r"(\d+)(ms|s|m|h|d|KB|MB|GB|KiB|MiB|GiB)")
_NUMERIC = re.compile(r"\b(int|float|timedelta|PositiveInt|NonNegativeInt|PositiveFloat|NonNegativeFloat)\b")

Number = int | float
_OPERATORS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
    ast.LShift: operator.lshift,
}


def number(node: ast.expr) -> Number | None:
    """Return the number that *node* writes out, as `16 * 1024`; None for what is none, switches among them."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float()):
            return node.value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = number(operand)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            first, second = number(left), number(right)
            return None if first is None or second is None else _OPERATORS[type(op)](first, second)
    return None


def plain_mutants(node: ast.expr, *, name: str, cap: bool = False, most: Number | None = None) -> tuple[str, ...]:
    """Return the code of the mutants of *node*, the coarse one first; none where it is no value of these kinds.

    Beyond *most* a value would be refused, and not be noticed: it is halved then, as is a share.
    """
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        return (str(not node.value),)
    found = number(node)
    if found is not None:
        return _number_mutants(found, cap=cap or bool(_CAP.search(name)), most=most)
    match node:
        case ast.Call(func=ast.Name(id="timedelta") | ast.Attribute(attr="timedelta")):
            return (f"2 * {ast.unparse(node)}",)
        case ast.Constant(value=str(text)) if size := _SIZE.fullmatch(text):
            return (repr(f"{2 * int(size[1])}{size[2]}"),)
        case ast.Tuple(elts=elements) if elements and all(number(one) is not None for one in elements):
            return (f"tuple(2 * one for one in {ast.unparse(node)})",)
    return ()


def _number_mutants(found: Number, *, cap: bool, most: Number | None) -> tuple[str, ...]:
    coarse = 2 * found or 1
    share = isinstance(found, float) and found < 1 < coarse
    if share or (most is not None and coarse > most):
        coarse = found // 2 if isinstance(found, int) else found / 2
    edges = (found + 1, found - 1) if cap and isinstance(found, int) and abs(found) <= SMALL else ()
    return tuple(repr(one) for one in dict.fromkeys((coarse, *edges)) if one != found and (one >= 0 or found <= 0))


def derived_mutants(node: ast.expr, *, annotation: ast.expr | None = None) -> tuple[str, ...]:
    """Return the mutant of an expression that names another number; *annotation* or its shape tells that it is one."""
    leaves = [one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Constant | ast.Attribute | ast.Call)]
    if any(isinstance(one, ast.Call | ast.Attribute) for one in leaves):
        return ()
    names = [one.id for one in leaves if isinstance(one, ast.Name)]
    if not names or any(not name.isupper() for name in names):
        return ()
    numeric = annotation is not None and _NUMERIC.search(ast.unparse(annotation))
    counted = isinstance(node, ast.BinOp) and any(
        number(one) is not None for one in leaves if isinstance(one, ast.expr)
    )
    return (f"2 * ({ast.unparse(node)})",) if numeric or counted else ()
