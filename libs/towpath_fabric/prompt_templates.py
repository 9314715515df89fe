"""Base prompts: templates of a bounded subset of jinja. Whoever compiles them keeps what comes of it.

A template can insert the values it is given and choose between texts, no more. Loops, calls, attributes and arithmetic
are refused, so the template and its values bound the time and size of a rendering: a template of one project can't
delay the decisions of another.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, nodes
from jinja2.exceptions import SecurityError, TemplateError, UndefinedError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from towpath_contracts.problems.near_names import suggest_or_list

VARIABLES = ("tools", "routes", "agent_key", "tool_history", "user_message", "display_name")
"""What a base prompt may name."""

MAX_RENDERED_CHARS = 1_000_000
"""A rendered base prompt; about the largest context of today's models, at one character a token."""

MAX_CASED_CHARS = 200_000
"""Characters that `upper`, `lower`, `title` and `capitalize` change in one rendering: a million takes 60 ms."""

MAX_EXPRESSION_LEVELS = 16
"""Filters, conditions and operators inside each other: the time to compile them grows with the square of that."""

MAX_IF_LEVELS = 32
"""Python, which templates are compiled to, has room for 100 levels."""

_FILTERS = frozenset({"upper", "lower", "trim", "title", "capitalize", "default", "d", "length", "count"})
_CASED = frozenset({"upper", "lower", "title", "capitalize"})
_TESTS = frozenset({"defined", "undefined", "none", "string", "in", "eq", "ne", "equalto", "true", "false"})
_NODES = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.Name, nodes.Const, nodes.If, nodes.CondExpr),
    *(nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not, nodes.Test, nodes.Filter),
)

_environment = ImmutableSandboxedEnvironment(
    undefined=StrictUndefined,
    autoescape=False,  # a prompt is plain text, not HTML
    keep_trailing_newline=True,
)


class PromptInvalidError(ValueError):
    """A base prompt can't be compiled or rendered: `what` is wrong, and in which `line` where that is known."""

    def __init__(self, what: str, line: int | None = None) -> None:
        super().__init__(what if line is None else f"line {line} of the prompt: {what}")
        self.what = what
        self.line = line


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledPromptTemplate:
    """A compiled base prompt; `uses` counts the places of each variable, `cased` how often its letters are changed.

    One that only inserts values is a list of `pieces` (texts and variables), which costs a tenth of a jinja template.
    """

    size: int
    uses: Mapping[str, int]
    cased: Mapping[str, int]
    pieces: tuple[tuple[str, str], ...] | None
    template: Template | None

    def render(self, values: Mapping[str, str]) -> str:
        """Fill in *values*. Raises PromptInvalidError for a failing template, or one that would grow too large."""
        size = self.size + sum(len(values[name]) * times for name, times in self.uses.items())
        if size > MAX_RENDERED_CHARS:
            msg = f"the prompt would have {size} characters; the limit is {MAX_RENDERED_CHARS}"
            raise PromptInvalidError(msg)
        cased = sum(len(values[name]) * times for name, times in self.cased.items())
        if cased > MAX_CASED_CHARS:
            msg = f"the prompt would change the case of {cased} characters; the limit is {MAX_CASED_CHARS}"
            raise PromptInvalidError(msg)
        if self.pieces is not None:
            return "".join([values[text] if kind == "name" else text for kind, text in self.pieces])
        assert self.template is not None
        try:
            return self.template.render(values)
        except (TemplateError, SecurityError, UndefinedError, TypeError, ValueError) as error:
            msg = f"the prompt can't be rendered: {error}"
            raise PromptInvalidError(msg) from error


def template_tokens(text: str, most: int) -> int:
    """Return how many tokens *text* has, which the time to compile it grows with; beyond *most* they aren't counted."""
    found = 0
    try:
        for _token in _environment.lexer.tokeniter(text, None):
            found += 1
            if found > most:
                break
    except TemplateSyntaxError:
        pass  # nor does the compiler read on
    return found


def compile_base_prompt(text: str) -> CompiledPromptTemplate:
    """Compile *text*. Raises PromptInvalidError naming the line of what is not allowed."""
    try:
        tree = _environment.parse(text)
        names = _checked_names(tree)
        uses = Counter(name for name, _ in names)
        cased = Counter(name for name, times in names for _ in range(times))
        pieces = _pieces(tree)
        template = _environment.from_string(tree) if pieces is None else None
        return CompiledPromptTemplate(size=len(text), uses=uses, cased=cased, pieces=pieces, template=template)
    except PromptInvalidError:
        raise
    except TemplateSyntaxError as error:
        raise PromptInvalidError(error.message or "not a template", error.lineno) from error
    except RecursionError as error:
        msg = "the prompt is nested too deeply"
        raise PromptInvalidError(msg) from error
    except (
        SyntaxError,
        ValueError,
        OverflowError,
    ) as error:  # numbers that Python does not take, or what it can't nest
        msg = f"the prompt can't be compiled: {str(error)[:200]}"
        raise PromptInvalidError(msg) from error


def _pieces(tree: nodes.Template) -> tuple[tuple[str, str], ...] | None:
    """Return the texts and names of a template that has nothing else, or None."""
    pieces: list[tuple[str, str]] = []
    for output in tree.body:
        if not isinstance(output, nodes.Output):
            return None
        for node in output.nodes:
            if isinstance(node, nodes.TemplateData):
                pieces.append(("text", node.data))
            elif isinstance(node, nodes.Name):
                pieces.append(("name", node.name))
            else:
                return None
    return tuple(pieces)


def _checked_names(tree: nodes.Template) -> list[tuple[str, int]]:
    """Return each use of a variable, and how many filters around it change the case of its letters."""
    names = []
    pending: list[tuple[nodes.Node, int, int, int, bool]] = [(tree, 0, 0, 0, False)]
    while pending:
        node, ifs, levels, cased, is_inserted = pending.pop()
        ifs += isinstance(node, nodes.If)
        levels += isinstance(node, nodes.Expr)
        cased += isinstance(node, nodes.Filter) and node.name in _CASED
        _check(node, ifs, levels, shown=_in_braces if is_inserted else str)
        if isinstance(node, nodes.Name):
            names.append((node.name, cased))
        is_output = isinstance(node, nodes.Output)
        pending.extend((child, ifs, levels, cased, is_output) for child in node.iter_child_nodes())
    return names


def _in_braces(name: str) -> str:
    return f"{{{{ {name} }}}}"


def _check(node: nodes.Node, ifs: int, levels: int, shown: Callable[[str], str]) -> None:
    """Raise PromptInvalidError for a node that none may have; *shown* writes a variable as it stands there."""
    what = ""
    if not isinstance(node, _NODES):
        what = f"{type(node).__name__.lower()} is not allowed in a prompt"
    elif ifs > MAX_IF_LEVELS or levels > MAX_EXPRESSION_LEVELS:
        what = f"more than {MAX_IF_LEVELS} ifs, or {MAX_EXPRESSION_LEVELS} operators, stand inside each other"
    elif isinstance(node, nodes.Name) and node.name not in VARIABLES:
        what = f"there is no variable {node.name!r}{suggest_or_list(node.name, VARIABLES, shown=shown)}"
    elif isinstance(node, nodes.Filter) and node.name not in _FILTERS:
        meant = suggest_or_list(node.name, sorted(_FILTERS), shown=str)
        what = f"the filter {node.name!r} is not allowed in a prompt{meant}"
    elif isinstance(node, nodes.Test) and node.name not in _TESTS:
        what = f"the test {node.name!r} is not allowed in a prompt"
    if what:
        raise PromptInvalidError(what, node.lineno)
