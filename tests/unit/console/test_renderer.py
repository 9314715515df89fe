"""Pages show what models, tools and callers wrote as text: nothing of it runs, hides or reorders what is around it."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import towpath_console as console
from towpath_console import text
from towpath_console.page import Page
from towpath_console.renderer import Renderer

AROUND = {"section": "/", "url": "/", "query": {}, "live": "/console/live?page=%2F", "message": ""}
HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; alert(1) //",
    "{{ 7 * 7 }}{% raw %}",
    "</pre></code><style>*{display:none}</style>",
    "\u202eevil\u2066 \u200bhidden\u0000",
    "javascript:alert(1)",
)


TEMPLATES = Path(console.__file__).parent / "templates"
GLUED = re.compile(
    r'<td(?! class="stack")[^>]*>(?:(?!<br|<a |<td|</td>).)*?'
    r'[}][}](?:[{]%(?! el)[^%]*%[}])*<span class="hint">'
)
"""A value in a cell with what belongs to it right behind; of a value that is cut by `/`, as in 3/10, that is meant."""


class Tags(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def run_named(words: str) -> dict[str, Any]:
    return {
        "run_id": "01a21826-750f-7b51-adac-0b09758c40f8", "status": "completed", "reason": words, "message": words,
        "network": words, "version": 1, "agent_key": words, "step": 1, "max_steps": 10, "caller": words, "cost": None,
        "usage": None, "user_message": words, "started_at": None, "ended_at": None, "final": {"message": words},
        "created_at": "2026-11-26T14:00:00Z", "waits": [],
    }  # fmt: skip


def gate_named(words: str) -> dict[str, Any]:
    origins = [{"path": words, "from": words, "tool": words, "step": 1}]
    detail = {"tool": words, "args": {words: words}, "rule": words, "agent": words, "digest": words, "origins": origins}
    detail["summary"] = words + "{" + words + "}"
    return {
        "gate_id": "b8176244-5c21-5539-9bae-2275585647f8", "run_id": "01a21826-750f-7b51-adac-0b09758c40f8",
        "gate_type": "approval", "status": "pending", "reason": words, "detail": detail, "network": words, "quorum": 1,
        "votes": [], "opened_at": "2026-11-26T14:00:00Z", "expires_at": None,
    }  # fmt: skip


def page_with(words: str) -> Page:
    view = {
        "run": run_named(words), "gates": [gate_named(words)], "rows": [], "timeline": [], "answer": words, "steps": [],
        "tab": "timeline",
    }  # fmt: skip
    return Page(words, "run.html", {}, view, 2.0)


@pytest.mark.parametrize("words", HOSTILE)
def test_hostile_text_stays_text(words: str) -> None:
    page = Renderer().whole(page_with(words), **AROUND)
    calm = Renderer().whole(page_with("calm"), **AROUND)
    found, wanted = Tags(page), Tags(calm)
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in wanted.tags], "it makes no tag"
    names = [sorted(attributes) for _, attributes in found.tags]
    assert names == [sorted(attributes) for _, attributes in wanted.tags], "nor an attribute"
    assert not any((attributes.get("href") or "").startswith("javascript:") for _, attributes in found.tags)
    assert text.visible(words) in found.text


def test_a_page_has_no_code_or_style_of_its_own() -> None:
    page = Renderer().whole(page_with("calm"), **AROUND)
    for tag, attributes in Tags(page).tags:
        assert not any(name.startswith("on") or name == "style" for name in attributes), (tag, attributes)
        if tag == "script":
            assert (attributes.get("src") or "").startswith("/console/assets/")


def test_hidden_characters_are_named_and_long_texts_are_cut() -> None:
    assert text.visible("a\u202eb\u200bc\u0000d") == "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0000⟩d"
    hidden = "\u00ad\u034f\u115f\u1160\u180e\u206a\u2800\u3164\ufe01\uffa0\ufff9\U0001d173\U000e0041\U000e0101"
    assert text.visible(hidden) == "".join(f"⟨U+{ord(one):04X}⟩" for one in hidden)
    assert text.hidden_count(f"a{hidden}b") == len(hidden)
    long = text.visible("x" * 1_000_000)
    assert len(long) < text.MAX_SHOWN_CHARS + 100 and "1,000,000 characters" in long
    assert text.visible("x" * 20_000) == "x" * 20_000
    assert text.visible("x" * 20_001) == f"{'x' * 20_000}… (20,001 characters)"
    assert text.visible("line\n\ttab é 漢字 🙂") == "line\n\ttab é 漢字 🙂"


def test_the_live_part_is_what_stands_in_the_whole_page() -> None:
    renderer = Renderer()
    part = renderer.live_part(page_with("calm"), **AROUND)
    assert part.strip() and "<html" not in part
    assert part.strip() in renderer.whole(page_with("calm"), **AROUND)


def test_an_unknown_price_is_never_a_zero() -> None:
    assert text.money({"usd": 0.0, "price_known": False}) == "price unknown"
    assert text.money({"usd": 0.0, "price_known": True}) == "$0.00"
    assert text.money({"usd": 0.01234, "price_known": True}) == "$0.0123"
    assert text.money(None) == text.NOTHING


def test_seconds_are_written_as_people_say_them() -> None:
    said = [text.duration(seconds) for seconds in (None, 0.012, 1.25, 61, 3_700, 200_000)]
    assert said == [text.NOTHING, "12 ms", "1.2 s", "1 min 01 s", "1 h 01 min", "2 d 7 h"]


def test_bytes_are_written_in_the_unit_that_people_read_them_in() -> None:
    said = [text.size(number) for number in (None, 0, 999, 1_000, 28_041, 1_500_000, 2_340_000_000_000)]
    assert said == [text.NOTHING, "0 B", "999 B", "1.0 kB", "28.0 kB", "1.5 MB", "2,340.0 GB"]


def test_a_text_that_is_json_is_written_as_json() -> None:
    assert text.written_json('{"a":1}') == json.dumps({"a": 1}, indent=2)
    assert text.written_json("plain") == "plain"


def test_however_many_texts_are_long_a_page_stays_small() -> None:
    text.begin_page()
    shown = [text.visible("<" * 1_048_576) for _ in range(100)]
    assert sum(len(one) for one in shown) * 5 < 250_000
    assert all("(1,048,576 characters)" in one and one.startswith("<" * text.SHORT) for one in shown)


def test_marks_that_would_cover_other_lines_are_counted_and_what_shows_nothing_is_named() -> None:
    assert text.visible("a" + "\u0301" * 40) == "a" + "\u0301" * 4 + "⟨36 more marks⟩"
    assert text.visible("or\u00adders\u3164\U000e0101") == "or⟨U+00AD⟩ders⟨U+3164⟩⟨U+E0101⟩"
    assert text.visible("\u2764\ufe0f é नमस्ते") == "\u2764\ufe0f é नमस्ते"
    assert text.visible("a\ufe0f") == "a⟨U+FE0F⟩"


def test_what_stands_beside_a_value_in_a_cell_is_no_part_of_its_word() -> None:
    lines = [
        f"{path.name}:{number}: {line.strip()[:200]}"
        for path in sorted(TEMPLATES.rglob("*.html"))
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (found := GLUED.search(line)) and not line[found.end() :].startswith("/")
    ]
    assert lines == [], "a cell shows agent and run as one word: put a space between them"
