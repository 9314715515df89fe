"""The navigation of the site: the tables of docs/README.md, so that people and the site have one list."""

import re
from typing import NamedTuple

from tests.support.places import ROOT

DOCS = ROOT / "docs"
LIST = DOCS / "README.md"
_SECTION = re.compile(r"^## (.+)$", re.MULTILINE)
_ROW = re.compile(r"^\| \[([^\]]+)\]\(([^)\s]+)\) \| (.+) \|$", re.MULTILINE)


class ListedPage(NamedTuple):
    """A row of the list: where the page is, relative to docs/, and what it is about."""

    section: str
    path: str
    about: str

    @property
    def title(self) -> str:
        """The first heading of the page."""
        return heading((DOCS / self.path).read_text("utf-8"))


def heading(text: str) -> str:
    """Return the first heading of a page."""
    found = re.search(r"^# (.+)$", text, re.MULTILINE)
    if found is None:
        msg = "the page has no heading"
        raise ValueError(msg)
    return found[1].replace("`", "")


def listed_pages() -> list[ListedPage]:
    """Return every page of the list, in its order."""
    parts = _SECTION.split(LIST.read_text("utf-8"))[1:]
    return [
        ListedPage(section, path, about)
        for section, text in zip(parts[::2], parts[1::2], strict=True)
        for _, path, about in _ROW.findall(text)
    ]


def unlisted_pages() -> list[str]:
    """Return which pages below docs/ the list lacks; the records of decisions have their own list."""
    known = {page.path for page in listed_pages()} | {LIST.name}
    found = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
    return [path for path in found if path not in known and not path.startswith("decisions/0")]
