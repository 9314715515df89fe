"""Builds the site from the pages, with what programs read of it: llms.txt and llms-full.txt."""

import re
import subprocess
import sys
from pathlib import Path
from shutil import rmtree

import yaml
from tests.docs_site.page_list import DOCS, listed_pages
from tests.docs_site.page_tree import navigation, write_pages
from tests.support.places import ROOT

_COLOURS = re.compile(r"\x1b\[[\d;]*m")


class SiteError(Exception):
    """The site can't be built."""


def build_site(folder: Path) -> Path:
    """Build the site below *folder* and return where its first page is."""
    rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    outside = write_pages(pages)
    settings = {"docs_dir": "pages", "site_dir": "site", "nav": navigation(outside, pages)}
    text = (DOCS / "mkdocs.yml").read_text("utf-8") + yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    (folder / "mkdocs.yml").write_text(text, "utf-8")
    command = [Path(sys.executable).parent / "zensical", "build", "--strict", "--config-file", "mkdocs.yml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SiteError(_COLOURS.sub("", done.stdout + done.stderr)[-4000:])
    site = folder / "site"
    (site / "llms.txt").write_text(list_for_models(), "utf-8")
    (site / "llms-full.txt").write_text(text_for_models(), "utf-8")
    return site / "index.html"


def list_for_models() -> str:
    """Return llms.txt: what Towpath is, and a line about each page (https://llmstxt.org)."""
    lines = ["# Towpath", "", f"> {_summary()}", "", "[All of it in one file](llms-full.txt)"]
    section = ""
    for page in listed_pages():
        if page.section != section:
            section = page.section
            lines += ["", f"## {section}", ""]
        about = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", page.about)
        lines.append(f"- [{page.title}]({built_path(page.path)}): {about}")
    return "\n".join([*lines, ""])


def built_path(path: str) -> str:
    """Return where the page *path* is on the built site."""
    return re.sub(r"(^|/)README$", r"\1index", path.removesuffix(".md")) + ".html"


def text_for_models() -> str:
    """Return llms-full.txt: every page of the list, one after another."""
    pages = [f"<!-- docs/{page.path} -->\n\n{(DOCS / page.path).read_text('utf-8').strip()}" for page in listed_pages()]
    return "\n\n".join([f"# Towpath\n\n{_summary()}", *pages, ""])


def _summary() -> str:
    """Return the first paragraph of README.md."""
    return " ".join((ROOT / "README.md").read_text("utf-8").split("\n\n")[1].split())
