"""Writes the drawing of a network as SVG, as Mermaid, and as text for those who see no drawing.

The SVG has colours of its own for files; on a page the style sheet overrides them, so that it has both schemes.
"""

import itertools
from collections.abc import Mapping

from markupsafe import Markup

from towpath_console.drawings.graph import ANSWER, GraphEdge, GraphLayout, GraphNode
from towpath_console.drawings.graph_rows import NODE_HEIGHT, NODE_WIDTH, Point
from towpath_console.text import one_line, visible

NAME_CHARS = 21
NOTE_CHARS = 30
TIMES = "\N{MULTIPLICATION SIGN}"

_SCHEMES = Markup(
    "<style>.graph text{font-family:system-ui,sans-serif}@media (prefers-color-scheme:dark){"
    ".graph .paper{fill:#0f1417}.graph .box{fill:#161d21;stroke:#46535b}.graph .box.seen{stroke:#58a9e0}"
    ".graph .box.now{fill:#15263c}.graph text{fill:#e7ecef}.graph .note{fill:#a3b0b8}.graph .edge{stroke:#6b7881}"
    ".graph .edge.seen{stroke:#58a9e0}.graph .tip{fill:#6b7881}.graph .tip.seen{fill:#58a9e0}"
    ".graph .pill{fill:#15263c}.graph .count{fill:#8fc1ff}}</style>"
)
"""For a file that is looked at alone: the console's own tokens."""


def graph_svg(layout: GraphLayout, *, alone: bool = False, name: str = "graph") -> Markup:
    """Return the SVG of *layout*; *alone* is for a file of its own, *name* sets it apart from others on its page."""
    shown = [edge for edge in layout.edges if edge.points]
    by_line = {edge.points: edge for edge in shown}
    lines = [_edge(edge, by_line) for edge in sorted(shown, key=lambda edge: edge.count > 0)]
    boxes = [_node(node, layout) for node in layout.nodes]
    counts = [_count(edge, by_line) for edge in shown if edge.count]
    paper = Markup('<rect class="paper" width="{0:g}" height="{1:g}" fill="#f6f7f8"/>').format(
        layout.width, layout.height
    )
    return Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" width="{width:g}" height="{height:g}" '
        'viewBox="0 0 {width:g} {height:g}" aria-labelledby="{name}-title {name}-words" font-size="14">'
        '<title id="{name}-title">{title}</title><desc id="{name}-words">{words}</desc>{around}{inside}</svg>'
    ).format(
        width=layout.width,
        height=layout.height,
        name=name,
        title=visible(f"Graph of {layout.name or 'a network'}"),
        words=visible(graph_text(layout)),
        around=_SCHEMES + paper if alone else "",
        inside=Markup("").join([*lines, *boxes, *counts]),
    )


def graph_mermaid(layout: GraphLayout) -> str:
    """Return *layout* as a Mermaid flowchart; edges that a run took bear their number, the others are dotted then."""
    ids = {(node.is_answer, node.key): f"n{place}" for place, node in enumerate(layout.nodes)}
    lines = ["flowchart LR"]
    for node in layout.nodes:
        text = _mermaid_text(node.key if node.is_answer else f"{node.key}{_steps(node)}")
        box = f'(["{text}"])' if node.is_answer else f'["{text}"]'
        lines.append(f"  {ids[node.is_answer, node.key]}{box}")
    if any(edge.kind == "answers" for edge in layout.edges) and (True, ANSWER) not in ids:
        ids[True, ANSWER] = f"n{len(ids)}"
        lines.append(f'  {ids[True, ANSWER]}(["{ANSWER}"])')
    for edge in layout.edges:
        arrow = "-->" if edge.count or not layout.visited else "-.->"
        said: list[str] = [] if edge.kind in ("hands over", "answers") else [edge.kind]
        said += [f"{edge.count}{TIMES}"] if edge.count else []
        label = f'|"{" ".join(said)}"|' if said else ""
        lines.append(f"  {ids[False, edge.source]} {arrow}{label} {ids[edge.kind == 'answers', edge.target]}")
    lines += [f"  style {ids[False, node.key]} stroke-width:3px" for node in layout.nodes if node.current]
    return "\n".join(lines) + "\n"


def graph_text(layout: GraphLayout) -> str:
    """Return *layout* in words: a line for each agent, and one for each place that it can go to."""
    lines = []
    for node in layout.nodes:
        if node.is_answer:
            continue
        marks = [word for word, holds in (("starts", node.first), ("now", node.current)) if holds]
        tools = f": {', '.join(node.tools)}" if node.tools else ""
        marked = f" [{', '.join(marks)}]" if marks else ""
        lines.append(f"{node.key}{marked}{_steps(node)}{tools}")
        for edge in layout.edges:
            if edge.source == node.key:
                target = ANSWER if edge.kind == "answers" else edge.target
                said = "" if edge.kind in ("hands over", "answers") else f" ({edge.kind})"
                times = f" {edge.count}{TIMES}" if edge.count else ""
                lines.append(f"  → {target}{said}{times}")
    return "\n".join(lines) + "\n"


def _steps(node: GraphNode) -> str:
    return f" ({node.steps} step{'' if node.steps == 1 else 's'})" if node.steps else ""


def _mermaid_text(text: str) -> str:
    plain = " ".join(str(visible(text)).split())
    for sign, code in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;"), ("`", "#96;")):
        plain = plain.replace(sign, code)  # the first of them, since the others bring it in
    return plain


def _node(node: GraphNode, layout: GraphLayout) -> Markup:
    seen = node.steps > 0 or (node.is_answer and any(e.count for e in layout.edges if e.kind == "answers"))
    state = "box" + (" answer" if node.is_answer else "") + (" seen" if seen else "") + (" now" if node.current else "")
    box = Markup(
        '<rect class="{state}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{r}" fill="{fill}" '
        'stroke="{stroke}" stroke-width="{line}"/>'
    ).format(
        state=state, x=node.x, y=node.y, w=NODE_WIDTH, h=NODE_HEIGHT, r=25 if node.is_answer else 8,
        fill="#e6effb" if node.current else "#ffffff", stroke="#2f7fb8" if seen else "#b6bec4",
        line=2.5 if node.current else 1.5,
    )  # fmt: skip
    whole = " · ".join(part for part in (node.key, node.description, ", ".join(node.tools)) if part)
    if node.is_answer:
        return Markup("<g>{}{}</g>").format(
            box, _text(node.x + NODE_WIDTH / 2, node.y + 30, "Answer", "middle", bold=True)
        )
    mark = "◐ now" if node.current else "▸ start" if node.first else ""
    name = _text(node.x + 12, node.y + 21, one_line(node.key, NAME_CHARS - (4 if mark else 0)), "start", bold=True)
    said = _text(node.x + NODE_WIDTH - 10, node.y + 20, mark, "end", small=True) if mark else Markup("")
    note = _text(node.x + 12, node.y + 39, one_line(_note(node), NOTE_CHARS), "start", small=True)
    return Markup("<g><title>{}</title>{}{}{}{}</g>").format(visible(one_line(whole, 400)), box, name, said, note)


def _note(node: GraphNode) -> str:
    steps = f"{node.steps} step{'' if node.steps == 1 else 's'}" if node.steps else ""
    tools = node.tools[0] if len(node.tools) == 1 else f"{len(node.tools)} tools" if node.tools else "no tools"
    times = f" {node.answered}{TIMES}" if node.answered else ""
    return " · ".join(part for part in (steps, tools, f"answers{times}" if node.answers else "") if part)


def _text(x: float, y: float, words: str, anchor: str, *, bold: bool = False, small: bool = False) -> Markup:
    return Markup(
        '<text class="{kind}" x="{x:g}" y="{y:g}" text-anchor="{anchor}"{weight} font-size="{size}" fill="{fill}">'
        "{words}</text>"
    ).format(
        kind="note" if small else "name", x=x, y=y, anchor=anchor, weight=Markup(' font-weight="600"') if bold else "",
        size=12 if small else 14, fill="#53606b" if small else "#16202a", words=visible(words),
    )  # fmt: skip


def _edge(edge: GraphEdge, by_line: Mapping[tuple[Point, ...], GraphEdge]) -> Markup:
    """Return the line of an edge and its tip; of an edge in both directions the line once, and a tip each."""
    colour, state = ("#2f7fb8", " seen") if edge.count else ("#8b979f", "")
    (x, y), (dx, dy) = edge.points[-1], _heading(edge)
    tip = Markup('<path class="tip{}" d="M {:g} {:g} l {:g} {:g} l {:g} {:g} z" fill="{}"/>').format(
        state, x, y, -8 * dx - 4.5 * dy, -8 * dy - 4.5 * dx, 9 * dy, 9 * dx, colour
    )
    other = _other(edge, by_line)
    if other is not None and (other.count > 0, not other.is_second) > (edge.count > 0, not edge.is_second):
        return tip
    return Markup(
        '<path class="edge{state}" d="{d}" fill="none" stroke="{colour}" stroke-width="{line}"{dashes}/>{tip}'
    ).format(
        state=state, d=_curve(edge), colour=colour, line=2.25 if edge.count else 1.25, tip=tip,
        dashes=Markup(' stroke-dasharray="6 4"') if edge.kind == "delegates" else "",
    )  # fmt: skip


def _other(edge: GraphEdge, by_line: Mapping[tuple[Point, ...], GraphEdge]) -> GraphEdge | None:
    """Return the edge in the other direction, if both have one line."""
    return by_line.get(edge.points[::-1])


def _heading(edge: GraphEdge) -> Point:
    """Return where a line goes as it reaches its target: left or right, or down or up to the next box."""
    (x, y), (end_x, end_y) = edge.points[0], edge.points[-1]
    if x == end_x and not edge.bulge:
        return 0, 1 if end_y > y else -1
    return -1 if edge.leftward else 1, 0


def _controls(edge: GraphEdge, start: Point, end: Point) -> tuple[Point, Point]:
    """Return the control points of a part of a line, which is level where it begins and ends."""
    if edge.bulge:
        out = edge.bulge * 4 / 3
        return (start[0] + out, start[1]), (end[0] + out, end[1])
    half = (end[0] - start[0]) / 2
    return (start[0] + half, start[1]), (end[0] - half, end[1])


def line_points(edge: GraphEdge, each: int = 12) -> list[Point]:
    """Return points along the line as it is drawn, *each* of every part of it."""
    found = list(edge.points[:1])
    for start, end in itertools.pairwise(edge.points):
        one, other = _controls(edge, start, end)
        found += [_at(start, one, other, end, step / each) for step in range(1, each + 1)]
    return found


def _at(start: Point, one: Point, other: Point, end: Point, share: float) -> Point:
    rest = 1 - share
    weights = rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3
    x, y = (sum(w * p[axis] for w, p in zip(weights, (start, one, other, end), strict=True)) for axis in (0, 1))
    return x, y


def _curve(edge: GraphEdge) -> str:
    (x, y), parts = edge.points[0], []
    for start, end in itertools.pairwise(edge.points):
        (ax, ay), (bx, by) = _controls(edge, start, end)
        parts.append(f"C {ax:g} {ay:g} {bx:g} {by:g} {end[0]:g} {end[1]:g}")
    return f"M {x:g} {y:g} {' '.join(parts)}"


def _middle(edge: GraphEdge, *, is_one_of_two: bool) -> Point:
    """Return a point on the line about half way; nearer to the target where the other direction has its count too."""
    parts = line_points(edge)
    return parts[len(parts) * (70 if is_one_of_two else 50) // 100]


def _count(edge: GraphEdge, by_line: Mapping[tuple[Point, ...], GraphEdge]) -> Markup:
    other = _other(edge, by_line)
    x, y = _middle(edge, is_one_of_two=other is not None and other.count > 0)
    words = f"{edge.count}{TIMES}"
    width = 12 + 7 * len(words)
    return Markup(
        '<g><title>{said}</title><rect class="pill" x="{left:g}" y="{top:g}" width="{width:g}" height="18" rx="9" '
        'fill="#e6effb"/><text class="count" x="{x:g}" y="{base:g}" text-anchor="middle" font-size="12" '
        'font-weight="600" fill="#1d4f91">{words}</text></g>'
    ).format(
        said=visible(f"{edge.source} {edge.kind} {'' if edge.kind == 'answers' else edge.target + ' '}{words}"),
        left=x - width / 2, top=y - 9, width=width, x=x, base=y + 4.5, words=words,
    )  # fmt: skip
