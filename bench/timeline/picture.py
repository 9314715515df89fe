"""The median step as a small SVG: a lane for each process, an arrow for each message, a bar where a service is at work.

Colours come from a style sheet that follows the reader's light or dark theme; the background is left to the page.
"""

from html import escape

from timeline.hops import BROKER, Hop, Step

LANES = ("orchestrator", "decider", "tas", "worker", "log_writer", "watchdog")
NAMES = {"tas": "tool-access service", "log_writer": "log-writer"}
LEFT, WIDTH, MARGIN = 150, 830, 20
TOP, LANE, BAR = 40, 52, 12
LEGEND_ROW = 17
STYLE = """
text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2933}
.head{font-weight:600}.small{font-size:10.5px;fill:#52606d}.number{font-size:10px;font-weight:600;text-anchor:middle}
.line{stroke:#cbd2d9}.work{fill:#2b6cb0}.aside{fill:#9aa5b1}
.path{stroke:#2b6cb0;stroke-width:1.4}.other{stroke:#9aa5b1;stroke-dasharray:4 3}
.tip{fill:#2b6cb0}.othertip{fill:#9aa5b1}.disc{fill:#fff;stroke:#2b6cb0}
@media (prefers-color-scheme:dark){
text{fill:#e4e7eb}.small{fill:#a5b1bd}.line{stroke:#3e4c59}.work,.tip{fill:#63a4e8}.aside,.othertip{fill:#616e7c}
.path{stroke:#63a4e8}.other{stroke:#616e7c}.disc{fill:#1f2933;stroke:#63a4e8}}
"""


def on_the_path(step: Step) -> list[Hop]:
    """Return the messages that the step waits for: those that the next of them is sent after."""
    messages = [hop for hop in step.hops if hop.receiver != BROKER and hop.sender != BROKER]
    awaited = {(hop.after, hop.sender) for hop in messages}
    return [hop for hop in messages if (hop.subject, hop.receiver) in awaited]


def svg(step: Step) -> str:
    """Draw the step; the same step always gives the same text."""
    path = on_the_path(step)
    numbers = {(hop.subject, hop.receiver): place for place, hop in enumerate(path, 1)}
    bottom = TOP + len(LANES) * LANE
    height = bottom + 40 + (len(path) + 1) * LEGEND_ROW + 6
    width = LEFT + WIDTH + MARGIN
    parts = [f"<style>{STYLE}</style>", _tips(), *_grid(step, bottom)]
    shown = [hop for hop in step.hops if hop.sender in LANES]
    parts += [_bar(step, hop) for hop in path]
    parts += [_bar(step, _closing(path[0], step))] if path else []
    parts += [_arrow(step, hop, is_path=(hop.subject, hop.receiver) in numbers) for hop in shown]
    parts += [_disc(step, hop, numbers[hop.subject, hop.receiver]) for hop in path]
    parts += _legend(path, bottom + 40)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="The messages of one lone step, on a time line">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _x(step: Step, ms: float) -> float:
    return LEFT + max(0.0, min(ms / step.ms, 1.0)) * WIDTH


def _y(role: str) -> float:
    return TOP + (LANES.index(role) + 0.5) * LANE


def _text(x: float, y: float, content: str, style: str = "") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}"{f" class={chr(34)}{style}{chr(34)}" if style else ""}>{escape(content)}</text>'
    )


def _tips() -> str:
    shape = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="6" markerHeight="6" orient="auto"'
    return (
        "<defs>"
        + "".join(
            f'<marker id="{name}" {shape}><path d="M0 0 L8 4 L0 8 z" class="{name}"/></marker>'
            for name in ("tip", "othertip")
        )
        + "</defs>"
    )


def _grid(step: Step, bottom: float) -> list[str]:
    parts = [_text(LEFT, 16, f"A lone step: {step.ms:.1f} ms, the median of {step.steps}", "head")]
    for role in LANES:
        parts.append(_text(8, _y(role) + 4, NAMES.get(role, role)))
        parts.append(f'<line x1="{LEFT}" y1="{_y(role):g}" x2="{LEFT + WIDTH}" y2="{_y(role):g}" class="line"/>')
    marks = range(0, int(step.ms) + 1, 2 if step.ms > 6 else 1)
    return [*parts, *(_text(_x(step, ms), bottom + 12, f"{ms} ms", "small") for ms in marks)]


def _closing(first: Hop, step: Step) -> Hop:
    """The first message of the next step: its sender's work ends this one."""
    return first._replace(sent_ms=step.ms)


def _bar(step: Step, hop: Hop) -> str:
    """Draw what the sender of *hop* did since it received what it sends this for."""
    x, until = _x(step, hop.sent_ms - hop.waited_ms), _x(step, hop.sent_ms)
    y = _y(hop.sender) - BAR / 2
    return f'<rect x="{x:.1f}" y="{y:g}" width="{until - x:.1f}" height="{BAR}" rx="2" class="work"/>'


def _arrow(step: Step, hop: Hop, *, is_path: bool) -> str:
    x, y = _x(step, hop.sent_ms), _y(hop.sender)
    if hop.receiver == BROKER:
        return f'<circle cx="{x:.1f}" cy="{y + 11:g}" r="2" class="aside"/>'
    style, tip = ("path", "tip") if is_path else ("other", "othertip")
    ends = f'x2="{_x(step, hop.received_ms):.1f}" y2="{_y(hop.receiver):g}"'
    return f'<line x1="{x:.1f}" y1="{y:g}" {ends} class="{style}" marker-end="url(#{tip})"/>'


def _disc(step: Step, hop: Hop, number: int) -> str:
    x, y = _x(step, hop.sent_ms), _y(hop.sender) - 16
    return f'<circle cx="{x:.1f}" cy="{y:g}" r="8" class="disc"/>' + _text(x, y + 3.5, str(number), "number")


def _legend(path: list[Hop], y: float) -> list[str]:
    rows = []
    for number, hop in enumerate(path, 1):
        sender, receiver = (NAMES.get(role, role) for role in (hop.sender, hop.receiver))
        rows.append(f"{number}  {hop.subject}: {sender} to {receiver}")
        rows[-1] += f"; sent after {hop.waited_ms:.1f} ms of work, {hop.broker_ms:.1f} ms in the broker"
    dashed = "Dashed: events, confirmations. Dots: acknowledgements to the broker. A bar is wake-up, code and Postgres."
    return [_text(8, y + place * LEGEND_ROW, row, "small") for place, row in enumerate([*rows, dashed])]
