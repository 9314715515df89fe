"""The samples of a soak as a small SVG: panels of lines over the minutes, with a tick where something was killed.

Colours come from a style sheet that follows the reader's light or dark theme; the background is left to the page.
"""

from collections.abc import Callable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any, Final

from tests.chaos.soak.samples import HARNESS, MIB

Sample = Mapping[str, Any]
Lines = Mapping[str, Sequence[tuple[float, float]]]

WIDTH, HEIGHT = 340, 130
LEFT, TOP, GAP_X, GAP_Y = 48, 34, 230, 62
COLOURS: Final = ("#2b6cb0", "#b7791f", "#2f855a", "#c53030", "#6b46c1", "#0987a0", "#97266d", "#718096", "#975a16")
STYLE: Final = """
text{font:11px ui-sans-serif,system-ui,sans-serif;fill:#1f2933}.head{font-weight:600}.small{font-size:10px}
.axis{stroke:#cbd2d9;fill:none}.kill{stroke:#c53030;stroke-width:1}path{fill:none;stroke-width:1.3}
@media (prefers-color-scheme:dark){text{fill:#e4e7eb}.axis{stroke:#3e4c59}}
"""
SERVERS: Final = frozenset({"nats", "postgres"})


def soak_svg(samples: Sequence[Sample], kills: Sequence[float], title: str) -> str:
    """Draw the panels; the same samples always give the same text. *kills* are seconds from the beginning."""
    names = sorted({name for sample in samples for name in sample["services"]})
    services = [name for name in names if name not in SERVERS and name != HARNESS]
    panels = [
        ("runs ended each second", {"runs": _rates(samples)}),
        ("runs under way", {"with children": _line(samples, lambda s: s["work"].get("under_way"))}),
        ("anonymous memory of services, MiB", {name: _use(samples, name, "anon_mib") for name in services}),
        ("anonymous memory of servers, MiB", {name: _use(samples, name, "anon_mib") for name in sorted(SERVERS)}),
        ("open files", {name: _use(samples, name, "fds") for name in services}),
        ("disk, MiB", _disk(samples)),
        ("largest tables, MiB", _tables(samples)),
        ("streams, MiB", _streams(samples)),
    ]
    longest = max((sample["at"] for sample in samples), default=1.0) / 60
    parts = [f"<style>{STYLE}</style>", _text(10, 16, title, "head")]
    for place, (head, lines) in enumerate(panels):
        x = LEFT + place % 2 * (WIDTH + GAP_X)
        y = TOP + 20 + place // 2 * (HEIGHT + GAP_Y)
        parts += _panel(x, y, head, {name: points for name, points in lines.items() if points}, longest, kills)
    width, height = LEFT + 2 * (WIDTH + GAP_X), TOP + (len(panels) + 1) // 2 * (HEIGHT + GAP_Y)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{escape(title)}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n' + "\n".join(parts) + "\n</svg>\n"


def _panel(x: float, y: float, head: str, lines: Lines, longest: float, kills: Sequence[float]) -> list[str]:
    most = max((value for points in lines.values() for _, value in points), default=0.0) or 1.0
    drawn = [_text(x, y - 8, head, "head"), f'<path class="axis" d="M{x} {y}V{y + HEIGHT}H{x + WIDTH}"/>']
    drawn += [_text(x - 6, y + 8, f"{most:,.0f}", "small", "end"), _text(x - 6, y + HEIGHT, "0", "small", "end")]
    drawn += [_text(x + WIDTH, y + HEIGHT + 14, f"{longest:.0f} min", "small", "end")]
    for at in kills:
        place = x + at / 60 / longest * WIDTH
        drawn.append(f'<path class="kill" d="M{place:.1f} {y + HEIGHT}v5"/>')
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        words = " ".join(f"{x + t / longest * WIDTH:.1f},{y + HEIGHT - v / most * HEIGHT:.1f}" for t, v in points)
        drawn.append(f'<path stroke="{colour}" d="M{words}"/>')
        drawn.append(f'<path stroke="{colour}" d="M{x + WIDTH + 8} {y + 6 + 14 * number}h10"/>')
        drawn.append(_text(x + WIDTH + 22, y + 10 + 14 * number, f"{name} {points[-1][1]:,.0f}", "small"))
    return drawn


def _text(x: float, y: float, words: str, style: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>'


def _line(samples: Sequence[Sample], value: Callable[[Sample], float | None]) -> list[tuple[float, float]]:
    found = ((sample["at"] / 60, value(sample)) for sample in samples)
    return [(at, number) for at, number in found if number is not None]


def _use(samples: Sequence[Sample], name: str, measure: str) -> list[tuple[float, float]]:
    return _line(samples, lambda sample: sample["services"].get(name, {}).get(measure))


def _rates(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    pairs = pairwise(samples)
    return [
        (later["at"] / 60, max(0.0, (later["work"]["done"] - s["work"]["done"]) / (later["at"] - s["at"])))
        for s, later in pairs
        if later["at"] > s["at"]
    ]


def _disk(samples: Sequence[Sample]) -> Lines:
    def of(name: str) -> list[tuple[float, float]]:
        return _line(samples, lambda s: s["database"][name] / MIB if "database" in s else None)

    streams = _line(samples, lambda s: sum(x["bytes"] for x in s["streams"].values()) / MIB if "streams" in s else None)
    return {"database": of("bytes"), "WAL files": of("wal_files"), "streams": streams}


def _tables(samples: Sequence[Sample]) -> Lines:
    last = next((sample["tables"] for sample in reversed(samples) if "tables" in sample), {})
    largest = sorted(last, key=lambda name: -last[name]["bytes"])[: len(COLOURS)]
    return {name: _stored(samples, "tables", name) for name in largest}


def _streams(samples: Sequence[Sample]) -> Lines:
    names = sorted({name for sample in samples for name in sample.get("streams", ())})
    return {name: _stored(samples, "streams", name) for name in names}


def _stored(samples: Sequence[Sample], kind: str, name: str) -> list[tuple[float, float]]:
    return _line(samples, lambda s: s[kind].get(name, {"bytes": 0})["bytes"] / MIB if kind in s else None)
