"""The pages make a site offline: every link leads somewhere, every page is in the navigation, nothing is fetched."""

import re
from pathlib import Path

from tests.docs_site.page_list import LIST, listed_pages, unlisted_pages
from tests.docs_site.site_build import build_site, list_for_models
from tests.docs_site.site_links import site_faults


def test_every_page_has_a_row_in_the_list_of_pages() -> None:
    assert unlisted_pages() == [], f"give each a row in {LIST}: it is the navigation"


def test_the_sections_are_those_of_the_site() -> None:
    assert list(dict.fromkeys(page.section for page in listed_pages())) == [
        *("Tutorial", "Guides", "Reference", "Explanation"),
    ]


def test_the_built_site_has_no_dead_link_no_lost_page_and_asks_no_other_machine(tmp_path: Path) -> None:
    """It is built once for all that is looked at."""
    site = build_site(tmp_path / "site").parent
    assert site_faults(site) == []
    named_blocks_are_code_and_say_their_file(site)
    programs_stand_side_by_side_on_a_page_that_has_the_whole_width(site)
    models_are_given_a_list_of_the_pages_and_all_of_their_text(site)


def named_blocks_are_code_and_say_their_file(site: Path) -> None:
    page = (site / "tutorial.html").read_text("utf-8")
    assert '<span class="filename">tools.py</span>' in page
    assert "```" not in re.sub(r"<[^>]*>", "", page)


def programs_stand_side_by_side_on_a_page_that_has_the_whole_width(site: Path) -> None:
    page = (site / "guides" / "coming-from.html").read_text("utf-8")
    pairs = re.findall(r'<table class="side-by-side">(.*?)</table>', page, re.DOTALL)
    assert len(pairs) == 13
    for pair in pairs:
        left, right = pair.split("<td>")[1:]
        assert left.count("<pre>") == 1 <= right.count("<pre>")
    assert '<link rel="stylesheet" href="../site.css">' in page
    assert "side-by-side" in (site / "site.css").read_text("utf-8")
    sides = re.findall(r'<div class="md-sidebar md-[^>]*>', page)
    assert len(sides) == 2
    assert all("hidden" in side for side in sides)
    assert "hidden" not in re.findall(r'<div class="md-sidebar md-[^>]*>', (site / "tools.html").read_text("utf-8"))[0]


def models_are_given_a_list_of_the_pages_and_all_of_their_text(site: Path) -> None:
    links = re.findall(r"^- \[[^\]]+\]\((\S+)\): .+$", (site / "llms.txt").read_text("utf-8"), re.MULTILINE)
    assert len(links) == len(listed_pages())
    assert [link for link in links if not (site / link).is_file()] == []
    text = (site / "llms-full.txt").read_text("utf-8").replace("`", "")
    assert [page.path for page in listed_pages() if f"# {page.title}" not in text] == []


def test_what_is_wrong_with_a_site_is_found(tmp_path: Path) -> None:
    """The check itself: each kind of fault is told."""
    (tmp_path / "index.html").write_text('<nav><a href="a.html">a</a></nav><h1 id="top"></h1>', "utf-8")
    (tmp_path / "a.html").write_text(
        '<a href="gone.html">x</a><a href="index.html#no">y</a><script src="https://cdn.example/x.js"></script>'
        '<link rel="stylesheet" href="//cdn.example/x.css"><a href="https://other.example/">fine</a>',
        "utf-8",
    )
    (tmp_path / "lost.html").write_text("", "utf-8")
    (tmp_path / "s.css").write_text("a{background:url(https://cdn.example/p.png)}", "utf-8")
    assert site_faults(tmp_path) == [
        "a.html: gone.html is not there",
        "a.html: index.html#no has no such heading",
        "a.html: loads https://cdn.example/x.js",
        "a.html: loads //cdn.example/x.css",
        "lost.html: not in the navigation",
        "s.css: loads https://cdn.example/p.png",
    ]


def test_the_list_for_models_begins_with_what_it_is() -> None:
    assert list_for_models().startswith("# Towpath\n\n> Towpath runs LLM agents in production")
