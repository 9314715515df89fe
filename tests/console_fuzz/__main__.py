"""`python -m tests.console_fuzz`: every page of the console with every hostile text in the place of every other.

A platform with the sample is started, hostile texts are written into it as far as its contracts let them in, and then
every text of the API's answers is replaced on its way to the pages. `--browser` opens the pages in Chromium, where
nothing of a text may run. The exit status is 0 where all pages hold, else 1.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence

import httpx2
from tests.console_fuzz.content import paths, write_hostile_texts
from tests.console_fuzz.trials import poisoned_console, trials, try_all
from tests.support.browser import HOW, browser_path
from tests.support.platform.sample_platform import sample_platform

from towpath_embedded.servers.postgres_identity import temporary_folder

HELD, FAILED = 0, 1


async def run(words: Sequence[str], chromium: str | None) -> list[str]:
    """Try those trials that have one of *words* in their names, all without one; in the browser *chromium* if given."""
    chosen = [trial for trial in trials() if not words or any(word in trial.name for word in words)]
    with temporary_folder() as folder:
        platform = sample_platform(folder)
        async with platform:
            headers = platform.access.authorization()
            async with httpx2.AsyncClient(base_url=platform.gateway_url, headers=headers, timeout=60) as gateway:
                known = await write_hostile_texts(gateway)
                async with poisoned_console(gateway) as console:
                    if chromium is None:
                        return await try_all(console, paths(known), chosen, _print)
                    # Only what opens a browser needs the library that drives it.
                    from tests.console_fuzz.page_visits import visit_with_and_without_rules

                    return await visit_with_and_without_rules(chromium, console, paths(known), chosen, _print)


def main() -> int:
    """Try what the command line names."""
    parser = argparse.ArgumentParser(prog="python -m tests.console_fuzz", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="trials with this in their name; all without one")
    parser.add_argument("--browser", action="store_true", help="open the pages in Chromium, and see what a text does")
    asked = parser.parse_args()
    chromium = browser_path() if asked.browser else None
    if asked.browser and chromium is None:
        parser.error(f"no browser was found: {HOW}")
    wrong = asyncio.run(run(asked.words, chromium))
    for line in wrong:
        _print(line)
    _print(f"{len(wrong)} faults")
    return FAILED if wrong else HELD


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
