"""A comparison as Markdown: figures, ratios, what is missing, and on which machine it was."""

from collections.abc import Iterable

from comparison.figures import METRICS, Comparison, Metric, Summary, is_established, ratios, summaries
from comparison.systems import PEERS, TITLES, TOWPATH

NONE = "-"


def number(value: float, decimals: int) -> str:
    """Write a number for people, with commas between thousands."""
    return f"{value:,.{decimals}f}"


def cell(figure: Summary | None, decimals: int) -> str:
    """Write the median, and the least and the greatest value where they differ from it."""
    if figure is None:
        return NONE
    median, least, most = (number(value, decimals) for value in figure)
    return median if least == most else f"{median} [{least} to {most}]"


def ratio_cell(ratio: Summary | None) -> str:
    """Write a ratio; a tilde marks one that is not established."""
    if ratio is None:
        return NONE
    return cell(ratio, 2) if is_established(ratio) else f"~{cell(ratio, 2)}"


def rows(heading: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    """Write a table."""
    titles = list(heading)
    lines = [titles, ["---"] * len(titles), *map(list, body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def heading(metric: Metric, comparison: Comparison) -> str:
    """Return what a column of figures is called."""
    return metric.heading.replace("many", str(comparison.runs_together))


def figures_table(comparison: Comparison) -> str:
    """Write the figures of each system: median [least to greatest] of the rounds."""
    body = [
        [TITLES[system], *(cell(figures.get(metric.key), metric.decimals) for metric in METRICS)]
        for system, figures in summaries(comparison).items()
    ]
    return rows(["", *(heading(metric, comparison) for metric in METRICS)], body)


def ratios_table(comparison: Comparison) -> str:
    """Write the ratios of Towpath's cost to each peer's."""
    body = [
        [PEERS[peer].title, ours, *(ratio_cell(found.get(metric.key)) for metric in METRICS)]
        for (ours, peer), found in ratios(comparison).items()
    ]
    return rows(["Towpath's cost over that of", "tool", *(heading(metric, comparison) for metric in METRICS)], body)


def circumstances(comparison: Comparison) -> str:
    """Say when and where it was measured, how often, and what disturbed it."""
    rounds = max((len(found) for found in comparison.rounds.values()), default=0)
    facts = [
        f"{comparison.date}, {comparison.machine}; {rounds} {'round' if rounds == 1 else 'rounds'}.",
        f"Other programs used up to {comparison.cpu_share_of_others:.0%} of the processors meanwhile.",
    ]
    if comparison.quick:
        facts.insert(0, "**A quick trial, to see that the command works: no measurement.**")
    if not comparison.realtime:
        facts.append("Runs alone had no real-time priority.")
    return " ".join(facts)


def missing(comparison: Comparison) -> str:
    """Name the systems without figures, or without all of them, and why; empty where there are none."""
    return "\n".join(f"- not measured: {TITLES[name]}: {reason}" for name, reason in comparison.missing.items())


def versions(comparison: Comparison) -> str:
    """Name the versions of the peers' packages."""
    named = {package: version for name in PEERS for package, version in comparison.versions.get(name, {}).items()}
    return f"Peers: {', '.join(f'{package} {version}' for package, version in named.items())}." if named else ""


def text(comparison: Comparison) -> str:
    """Write all of it."""
    parts = [
        circumstances(comparison),
        figures_table(comparison),
        ratios_table(comparison) if any(name in TOWPATH for name in comparison.rounds) else "",
        missing(comparison),
        versions(comparison),
    ]
    return "\n\n".join(part for part in parts if part)


def in_page(page: str, written: str, name: str = "figures") -> str:
    """Return *page* with the text between the marks of *name* replaced; raise ValueError where it has none."""
    opening, closing = f"<!-- {name} begin -->", f"<!-- {name} end -->"
    before, begin, rest = page.partition(opening)
    _, end, after = rest.partition(closing)
    if not (begin and end):
        raise ValueError(f"the page has no {opening} … {closing}")
    return f"{before}{opening}\n\n{written}\n\n{closing}{after}"
