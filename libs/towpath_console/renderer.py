"""Draws pages: the templates, and what they may call."""

import functools
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC
from typing import Any
from urllib.parse import urlencode

import lucide
from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup, escape

from towpath_console import text
from towpath_console.assets_folder import address
from towpath_console.caller import ANYBODY, Caller
from towpath_console.gate_card import CELL_CHARS, LIST_CHARS, gate_card, written
from towpath_console.live import digest_of
from towpath_console.page import Page
from towpath_console.sections import LIVE, SECTIONS

_caller: ContextVar[Caller] = ContextVar("caller", default=ANYBODY)
"""Who the page is drawn for: parts that several pages import see no variables of the page."""


@functools.cache
def templates() -> Environment:
    """Return the templates, compiled once for all who draw."""
    found = Environment(
        loader=PackageLoader("towpath_console", "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=ChainableUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=text.visible,
    )
    found.globals |= {
        "asset": address,
        "card_of": gate_card,
        "cell_chars": CELL_CHARS,
        "list_chars": LIST_CHARS,
        "icon": icon,
        "sections": SECTIONS,
        "status": status,
        "seconds_between": text.seconds_between,
        "with_query": with_query,
        "may": lambda scope: _caller.get().may(scope),
        "can": lambda *roles: _caller.get().can(*roles),
        "lacking": lambda scope, *roles: _caller.get().lacking(scope, *roles),
        "lacking_at": lambda gate: _caller.get().lacking_at(gate),
    }
    found.filters |= {
        "as_written": as_written,
        "duration": text.duration,
        "exact": written,
        "money": text.money,
        "count": text.count,
        "pretty": text.written_json,
        "one_line": text.one_line,
        "sentence": text.sentence,
        "size": text.size,
        "short_id": text.short_id,
        "until": until,
        "when": when,
    }
    return found


class Renderer:
    """Turns pages into HTML. Templates escape whatever they show (`text.visible`), and have no code of their own."""

    def whole(self, page: Page, part: str | None = None, **around: Any) -> str:
        """Return the document of *page*; *around* is what its frame shows, *part* what changes where it is drawn."""
        part = self.live_part(page, **around) if part is None else part
        # It was escaped as it was drawn. The stream of the page is asked for what differs from it.
        drawn = {"part": Markup(part), "seen": digest_of(part)}  # noqa: S704
        return self._drawn(page, "frame.html", {**around, **drawn})

    def live_part(self, page: Page, **around: Any) -> str:
        """Return the part of *page* that changes while somebody looks on."""
        return self._drawn(page, "live.html", around)

    def _drawn(self, page: Page, frame: str, around: Mapping[str, Any]) -> str:
        template = templates().get_template(page.template)
        before = _caller.set(around.get("caller") or ANYBODY)
        text.begin_page()
        try:
            return template.render(frame=frame, page=page, data=page.data, **page.view, **around)
        finally:
            _caller.reset(before)


@functools.lru_cache(maxsize=256)
def icon(name: str, size: int = 18) -> Markup:
    """Return an icon, which says nothing to those who do not see it: a word stands beside each."""
    svg = lucide._render_icon(name, size, aria_hidden="true", focusable="false", **{"class": "icon"})
    return Markup(svg)  # noqa: S704  # of the package, by names that stand in templates


def status(word: str) -> Markup:
    """Return a status as a sign and its word."""
    tone = text.STATUS_TONES.get(word, "mute")
    sign = text.STATUS_SIGNS.get(word, "·")
    return Markup('<span class="status {}"><span aria-hidden="true">{}</span> {}</span>').format(
        tone, sign, text.visible(word)
    )


def when(value: Any) -> str:
    """Return a time as it is read by people: of today the hour, with all of it behind; browsers use their own zone."""
    found = text.as_time(value)
    if found is None:
        return text.NOTHING
    shown, whole = text.clock_of(found, text.now()), f"{found.astimezone(UTC):%d %b %Y %H:%M:%S} UTC"
    return Markup('<time datetime="{}" title="{}">{}</time>').format(found.isoformat(), whole, shown)


def until(value: Any) -> str:
    """Return a time to come; the browser writes beside it how long that is from now."""
    found = text.as_time(value)
    if found is None:
        return text.NOTHING
    shown = found.strftime("%d %b %H:%M")
    return Markup('<time class="until" datetime="{}" data-until>{}</time>').format(found.isoformat(), shown)


def as_written(value: Any) -> Markup:
    """Return a text for a field that sends it back: whole, with all its characters, and escaped like any other."""
    return escape(str(value))


def with_query(query: Mapping[str, str], **changes: str | None) -> str:
    """Return the query string of *query* with *changes*; None takes a parameter out."""
    found = {name: value for name, value in {**query, **changes}.items() if value}
    return f"?{urlencode(found)}" if found else "?"


def live_address(url: str) -> str:
    """Return where the changes of the page at *url* come from."""
    return f"{LIVE}?{urlencode({'page': url})}"


def escaped(value: object) -> str:
    """Return *value* as it may stand in HTML."""
    return str(escape(text.visible(str(value))))
