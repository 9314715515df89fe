"""What the pages of a console refer to, and which of it is not there."""

import re
from collections.abc import Iterable
from urllib.parse import urljoin, urlsplit

import httpx2

_FILE = re.compile(r"""<(?:link|script|img|use|source|image)\b[^>]*?\s(?:href|src)=["']([^"'#]+)""")
_IN_STYLE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])([^"')]+)""")
KINDS = {".css": "text/css", ".js": "javascript", ".svg": "image/svg+xml"}


async def absent_files(browser: httpx2.AsyncClient, pages: Iterable[str]) -> tuple[list[str], set[str]]:
    """Return what is wrong with *pages* and the files that they load, and the paths of all these files."""
    wrong: list[str] = []
    waiting: set[str] = set()
    for path in pages:
        page = await browser.get(path, headers={"Accept": "text/html"})
        if page.status_code != 200 or not page.text.startswith("<!doctype html>"):
            wrong.append(f"{path}: {page.status_code}")
        waiting |= {urljoin(path, found) for found in _FILE.findall(page.text)}
    files: set[str] = set()
    while waiting - files:
        path = min(waiting - files)
        files.add(path)
        if urlsplit(path).netloc:
            wrong.append(f"{path}: on another host")
            continue
        file = await browser.get(path)
        kind = next((kind for end, kind in KINDS.items() if urlsplit(path).path.endswith(end)), "")
        if file.status_code != 200 or not file.content or kind not in file.headers.get("content-type", ""):
            wrong.append(f"{path}: {file.status_code} {file.headers.get('content-type')}")
        if kind == "text/css":
            waiting |= {urljoin(path, found) for found in _IN_STYLE.findall(file.text) if not found.startswith("data:")}
    return wrong, files
