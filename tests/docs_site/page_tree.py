"""The pages as the site has them: those of docs/, and what of the repository they link to.

A page in another folder joins as it is. Another file, or a folder without a page of its own, becomes a page that shows
what is in it, so that every link of a page leads somewhere on the site too.
"""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.docs_site.page_list import DOCS, heading, listed_pages
from tests.support.places import ROOT

OUTSIDE = "repository"
"""The folder of the site for what is not below docs/."""

SIDE_BY_SIDE = '<table class="side-by-side" markdown="1">'
"""Two programs beside each other; docs/site.css says how they look."""

WHOLE_WIDTH = "---\nhide: [navigation, toc]\n---\n\n"
"""Before a page with such programs. It is not in the page itself, of which GitHub would show it as a table."""

LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.MULTILINE | re.DOTALL)
_NAMED_BLOCK = re.compile(r"\A```(\w+) (\S+)$", re.MULTILINE)
"""A block that tests know by a name: of a file, which readers see too, or of a command."""

_LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".toml": "toml", ".sql": "sql"}
_SHOWN_BYTES = 20_000
"""What is longer, such as the record of the wire format, is cut with a line that says so."""


def write_pages(folder: Path) -> list[str]:
    """Write every page below *folder*; return the paths of those that are not below docs/, in order."""
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("mkdocs.yml"))
    waiting = sorted(DOCS.rglob("*.md"))
    outside: set[Path] = set()
    while waiting:
        page = waiting.pop()
        place = folder / site_path(page)
        place.parent.mkdir(parents=True, exist_ok=True)
        text = _page_text(page)
        hidden = WHOLE_WIDTH if SIDE_BY_SIDE in text else ""
        place.write_text(hidden + _with_links_of_the_site(page, text), "utf-8")
        for target in _targets(page, text):
            if not target.is_relative_to(DOCS) and target not in outside:
                outside.add(target)
                waiting.append(target)
    return sorted(str(site_path(page)) for page in outside)


def navigation(outside: list[str], folder: Path) -> list[dict[str, object]]:
    """Return the navigation: the sections of the list, then what is not below docs/."""
    sections: dict[str, list[dict[str, str]]] = {}
    for page in listed_pages():
        sections.setdefault(page.section, []).append({page.title: page.path})
        if page.path == "decisions/README.md":
            for record in sorted((DOCS / "decisions").glob("0*.md")):
                sections[page.section].append({heading(record.read_text("utf-8")): f"decisions/{record.name}"})
    sections["Repository"] = [{heading((folder / path).read_text("utf-8")): path} for path in outside]
    return [{"All pages": "README.md"}, *({name: pages} for name, pages in sections.items())]


def site_path(source: Path) -> Path:
    """Return where *source*, a page, a file or a folder, has its page on the site."""
    if source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    path = Path(OUTSIDE) / source.relative_to(ROOT)
    return path if path.suffix == ".md" else path.with_name(f"{path.name}.md")


def _source(page: Path, link: str) -> Path:
    """Return what *link* on *page* leads to; of a folder its page, where it has one."""
    target = Path(os.path.normpath((page if page.is_dir() else page.parent) / link))
    return target / "README.md" if (target / "README.md").is_file() else target


def _targets(page: Path, text: str) -> Iterator[Path]:
    for part in _CODE.split(text)[::2]:
        for link, _ in LINK.findall(part):
            yield _source(page, link)


def _page_text(source: Path) -> str:
    if source.suffix == ".md":
        return source.read_text("utf-8")
    name = source.relative_to(ROOT)
    files = sorted(path for path in source.iterdir() if path.is_file()) if source.is_dir() else [source]
    shown = "\n".join(f"## {path.name}\n\n{_fenced(path)}" for path in files if path.suffix != ".pyc")
    return f"# {name}\n\nAs it is in the repository.\n\n{shown}"


def _fenced(path: Path) -> str:
    text = path.read_text("utf-8")
    cut = "" if len(text) <= _SHOWN_BYTES else f"\n… {len(text.splitlines()):,} lines in all: see the file.\n"
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall(r"`+", text)), 3)
    return f"{fence}{_LANGUAGES.get(path.suffix, 'text')}\n{text[:_SHOWN_BYTES].rstrip()}\n{fence}\n{cut}"


def _with_links_of_the_site(page: Path, text: str) -> str:
    """Return *text* with every link to where its target is on the site."""
    here = site_path(page).parent

    def moved(found: re.Match[str]) -> str:
        target = _source(page, found[1])
        return f"]({os.path.relpath(site_path(target), here)}{found[2] or ''})"

    parts = _CODE.split(text)
    parts[::2] = [LINK.sub(moved, part) for part in parts[::2]]
    parts[1::2] = [_NAMED_BLOCK.sub(_titled, part) for part in parts[1::2]]
    return "".join(parts)


def _titled(found: re.Match[str]) -> str:
    title = f' title="{found[2]}"' if "." in found[2] else ""
    return f"```{found[1]}{title}"
