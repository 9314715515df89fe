"""What is wrong with the HTML of a page whose texts are hostile."""

import re
from html.parser import HTMLParser
from urllib.parse import urlsplit

MAX_PAGE_BYTES = 250_000

_ADDRESSES = frozenset({"href", "src", "action", "formaction", "xlink:href", "poster", "srcset", "ping"})
_NEVER = frozenset({
    "iframe", "object", "embed", "base", "style", "applet", "frame", "frameset", "math", "foreignobject", "video",
    "audio", "portal", "template", "marquee",
})  # fmt: skip
_NO_ATTRIBUTE = frozenset({"style", "srcdoc", "ping"})
_WRITTEN = frozenset({"value", "href", "action", "formaction", "content", "name", "id", "for", "hx-sse:connect"})
"""Attributes that are sent back as they are, or are parts of addresses; nobody reads them."""

HIDDEN = re.compile(
    "[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
COMBINING = re.compile("[\u0300-\u036f\u0483-\u0489\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]{9}")


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: set[str] = set()
        self._field = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._field = tag == "textarea"
        told = dict(attrs)
        if tag.startswith("hostile") or tag in _NEVER:
            self.found.add(f"an element <{tag}>")
        if tag == "script" and not (told.get("src") or "").startswith("/console/assets/"):
            self.found.add("a script")
        for name, value in attrs:
            if "hostile" in name or name in _NO_ATTRIBUTE or name.startswith("on"):
                self.found.add(f"an attribute {name} of <{tag}>")
            if name in _ADDRESSES and not is_own(value or ""):
                self.found.add(f"<{tag} {name}={(value or '')[:80]!r}>")
            if name not in _WRITTEN:
                self._shown(value or "", f"{name} of <{tag}>")

    def handle_endtag(self, tag: str) -> None:
        self._field = False

    def handle_data(self, data: str) -> None:
        if not self._field:
            self._shown(data, "the text")

    def handle_comment(self, data: str) -> None:
        self.found.add(f"a comment {data[:60]!r}")

    def handle_pi(self, data: str) -> None:
        self.found.add(f"an instruction {data[:60]!r}")

    def unknown_decl(self, data: str) -> None:
        self.found.add(f"a declaration {data[:60]!r}")

    def _shown(self, text: str, where: str) -> None:
        hidden = {f"U+{ord(one):04X}" for one in HIDDEN.findall(text)}
        if hidden:
            self.found.add(f"hidden characters in {where}: {' '.join(sorted(hidden)[:6])}")
        if COMBINING.search(text):
            self.found.add(f"a flood of marks in {where}")


def is_own(address: str) -> bool:
    """Return whether a browser asks the console itself where a page names *address*."""
    plain = re.sub(r"[\t\r\n]", "", address).strip("".join(map(chr, range(33)))).replace("\\", "/")
    if plain.startswith("//"):
        return False
    try:
        parts = urlsplit(plain)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc


def page_faults(document: str) -> list[str]:
    """Return what in *document* came from data and is more than text, and what of its texts is not what it seems."""
    reader = _Reader()
    reader.feed(document)
    reader.close()
    found = sorted(reader.found)
    size = len(document.encode("utf-8", "replace"))
    return [*found, f"{size:,} bytes"] if size > MAX_PAGE_BYTES else found
