"""What is wrong with a built site: dead links, pages outside the navigation, and requests to other machines."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urldefrag

_LOADED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("object", "data"),
}
_LOADED_RELATIONS = {"stylesheet", "icon", "preload", "prefetch", "preconnect", "dns-prefetch", "manifest"}
_TAG = re.compile(r"<(a|link|script|img|iframe|source|video|object|h[1-6]|[a-z]+(?= [^>]*\bid=))\b([^>]*)>")
_ATTRIBUTE = re.compile(r"""([\w-]+)=["']?((?<=")[^"]*|(?<=')[^']*|[^\s"'>]+)""")
_NAVIGATION = re.compile(r"<nav\b.*?</nav>", re.DOTALL)
_NOT_READ = {"404.html"}
"""Answered by a web server for an address that is not there; its own links begin at the server's root."""


class _Page:
    """The links, the anchors and what is loaded of one page."""

    def __init__(self, text: str) -> None:
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        for tag, said in _TAG.findall(text):
            attributes = {name: unescape(value) for name, value in _ATTRIBUTE.findall(said)}
            self.anchors |= {attributes["id"]} if "id" in attributes else set()
            if tag == "a" and "href" in attributes:
                self.links.append(attributes["href"])
            if tag == "link" and _LOADED_RELATIONS & set(attributes.get("rel", "").split()):
                self.loaded.append(attributes["href"])
            self.loaded += [attributes[name] for kind, name in _LOADED if kind == tag and attributes.get(name)]


def site_faults(site: Path) -> list[str]:
    """Return everything that is wrong with the site in the folder *site*."""
    site = site.resolve()
    pages = {
        path: _Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html")) if path.name not in _NOT_READ
    }
    faults = [f"{path.relative_to(site)}: {fault}" for path in pages for fault in _page_faults(path, pages)]
    first = site / "index.html"
    navigation = _Page("".join(_NAVIGATION.findall(first.read_text("utf-8"))))
    listed = {_target(first, link)[0] for link in navigation.links} | {first}
    faults += [f"{path.relative_to(site)}: not in the navigation" for path in pages if path not in listed]
    for style in site.rglob("*.css"):
        faults += [f"{style.name}: loads {url}" for url in re.findall(r"url\(['\"]?(https?:[^)]*)", style.read_text())]
    return faults


def _page_faults(path: Path, pages: dict[Path, _Page]) -> Iterator[str]:
    page = pages[path]
    for link in page.links + page.loaded:
        if re.match(r"[a-z]+:|//", link):
            if link in page.loaded and not link.startswith("data:"):
                yield f"loads {link}"
            continue
        target, anchor = _target(path, link)
        if not target.exists():
            yield f"{link} is not there"
        elif anchor and target in pages and anchor not in pages[target].anchors:
            yield f"{link} has no such heading"


def _target(path: Path, link: str) -> tuple[Path, str]:
    file, anchor = urldefrag(link)
    target = (path.parent / unquote(file)).resolve() if file else path
    return (target / "index.html" if target.is_dir() else target), unquote(anchor)
