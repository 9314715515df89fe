"""A comparison as a small SVG: a row for each system, a column of bars for each figure, ratios below the peers' bars.

Colours come from a style sheet that follows the reader's light or dark theme; the background is left to the page.
"""

from collections.abc import Mapping
from html import escape

from comparison.figures import METRICS, Comparison, Metric, Summary, is_established, ratios, summaries
from comparison.systems import TITLES, TOWPATH
from comparison.table import heading, number

SHOWN = tuple(metric for metric in METRICS if metric.key != "cpu_ms_without_client")
LABEL_WIDTH = 225
COLUMN_WIDTH = 185
BAR_WIDTH = 88
BAR_HEIGHT = 12
ROW_HEIGHT = 34
TOP = 44
MARGIN = 10
FOOT = 58
STYLE = """
text{font:12px ui-sans-serif,system-ui,sans-serif;fill:#1f2933}
.head{font-weight:600}.small{font-size:10.5px;fill:#52606d}.open{fill:#8794a1}
.ours{fill:#2b6cb0}.theirs{fill:#9aa5b1}.line{stroke:#cbd2d9}
@media (prefers-color-scheme:dark){
text{fill:#e4e7eb}.small{fill:#a5b1bd}.open{fill:#7b8794}
.ours{fill:#63a4e8}.theirs{fill:#616e7c}.line{stroke:#3e4c59}}
"""

Ratios = Mapping[tuple[str, str], Mapping[str, Summary]]


def label(x: float, y: float, content: str, style: str = "") -> str:
    """Draw a line of text; *content* is markup already."""
    return f'<text x="{x:g}" y="{y:g}"{f" class={chr(34)}{style}{chr(34)}" if style else ""}>{content}</text>'


def short(ratio: float) -> str:
    """Write a ratio with two digits or more."""
    return number(ratio, 2 if ratio < 1 else 1 if ratio < 10 else 0)


def ratio_text(system: str, metric: Metric, found: Ratios) -> str:
    """Return Towpath's ratios to *system*, one for each effect class, those that are not established in grey."""
    shown = [found[ours, system][metric.key] for ours in TOWPATH if (ours, system) in found]
    parts = [
        short(ratio.median) if is_established(ratio) else f'<tspan class="open">~{short(ratio.median)}</tspan>'
        for ratio in shown
    ]
    return f"{' / '.join(parts)} times" if parts else ""


def column(x: float, metric: Metric, figures: Mapping[str, Mapping[str, Summary]], found: Ratios) -> list[str]:
    """Draw the bars of one figure; the longest has the full width."""
    most = max((row[metric.key].median for row in figures.values()), default=0.0) or 1.0
    drawn = []
    for place, (system, row) in enumerate(figures.items()):
        y, median = TOP + place * ROW_HEIGHT, row[metric.key].median
        width = max(1.0, median / most * BAR_WIDTH)
        style = "ours" if system in TOWPATH else "theirs"
        drawn.append(f'<rect x="{x:g}" y="{y}" width="{width:.1f}" height="{BAR_HEIGHT}" rx="2" class="{style}"/>')
        drawn.append(label(x + width + 5, y + 10, number(median, metric.decimals)))
        if under := ratio_text(system, metric, found):
            drawn.append(label(x, y + BAR_HEIGHT + 11, under, "small"))
    return drawn


def svg(comparison: Comparison) -> str:
    """Draw the chart; the same comparison always gives the same text."""
    figures, found = summaries(comparison), ratios(comparison)
    width = LABEL_WIDTH + len(SHOWN) * COLUMN_WIDTH + MARGIN
    bottom = TOP + len(figures) * ROW_HEIGHT
    parts = [f"<style>{STYLE}</style>"]
    for place, metric in enumerate(SHOWN):
        x = LABEL_WIDTH + place * COLUMN_WIDTH
        better = "more is better" if metric.is_rate else "less is better"
        parts.append(label(x, 16, escape(heading(metric, comparison)), "head"))
        parts.append(label(x, 31, better, "small"))
        parts += column(x, metric, figures, found)
    for place, system in enumerate(figures):
        parts.append(label(MARGIN, TOP + 10 + place * ROW_HEIGHT, escape(TITLES[system])))
    parts.append(f'<path d="M{MARGIN} {bottom} H{width - MARGIN}" class="line"/>')
    trial = "Quick trial, no measurement. " if comparison.quick else ""
    lines = (
        f"times: what Towpath needs over what this one needs ({' / '.join(TOWPATH)} tool); below 1 Towpath needs less",
        "~ not established: nearer to 1 than 1.5, or not in every round",
        f"{trial}{escape(comparison.date)}, {escape(comparison.machine)}",
    )
    parts += [label(MARGIN, bottom + 17 + 15 * place, line, "small") for place, line in enumerate(lines)]
    size = f'viewBox="0 0 {width} {bottom + FOOT}" width="{width}" height="{bottom + FOOT}"'
    named = 'role="img" aria-label="Workload W1 on Towpath and its peers: time, rate, CPU and memory"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {named}>\n{chr(10).join(parts)}\n</svg>\n'
