"""`python -m tests.chaos.soak --runs 200000`: a whole platform under steady load for long, parts of it being killed.

Cheap scripted runs of several kinds cross an embedded platform, every kind of service and both servers are killed with
SIGKILL in turn, and samples are taken of what everything uses. At the end every run is accounted for, the outside file
is compared with the ledger, logs are replayed, and what grows with the number of runs is told. Ctrl-C ends the load
early and evaluates what there is; a second one ends everything. Progress goes to stderr and one document of JSON to
stdout; the exit status is 0 where everything held, 1 where something did not, 2 where the command line can't be
followed.
"""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.chaos.soak.curves import soak_svg
from tests.chaos.soak.report import growth_report
from tests.chaos.soak.run import SoakSettings, soak

from towpath_embedded.chaos.command_line import (
    FAILED,
    HELD,
    INTERRUPTED,
    component_versions,
    print_document,
    report_progress,
    work_folder,
)


def main(words: Sequence[str] | None = None) -> int:
    """Run what the command line asks for."""
    options = _options(words)
    if options.again is not None:
        return _again(options)
    try:
        return asyncio.run(_run(options))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return INTERRUPTED


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--minutes", type=float, default=120, help="submit for so long at most")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kills-every", type=float, default=90, metavar="S", help="seconds between kills; 0: none")
    parser.add_argument("--at-once", type=int, default=200, help="runs under way at most")
    parser.add_argument("--replays", type=int, default=20_000, help="runs that are replayed at the end")
    parser.add_argument("--sample-every", type=float, default=10, metavar="S")
    parser.add_argument("--out", type=Path, help="keep samples, report and curves, and the platform, in this folder")
    parser.add_argument("--svg", type=Path, help="also write the curves to this file, such as docs/soak.svg")
    parser.add_argument("--again", type=Path, metavar="DIR", help="evaluate samples that were kept, without a platform")
    return parser.parse_args(words)


async def _run(options: argparse.Namespace) -> int:
    settings = SoakSettings(
        runs=options.runs,
        minutes=options.minutes,
        seed=options.seed,
        kills_every_s=options.kills_every,
        at_once=options.at_once,
        replays=options.replays,
        sample_every_s=options.sample_every,
    )
    ending = asyncio.Event()
    _end_on_signals(ending)
    with work_folder(options.out) as folder:
        report = await soak(settings, folder, ending, report_progress)
        document = {"versions": component_versions(), **report}
        (folder / "report.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
        _draw(options.svg, folder)
    print_document(document)
    return FAILED if document["problems"] else HELD


def _end_on_signals(ending: asyncio.Event) -> None:
    """Let the first Ctrl-C end the load, and the second one everything."""
    working, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert working is not None

    def end() -> None:
        if ending.is_set():
            working.cancel()
        ending.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, end)


def _again(options: argparse.Namespace) -> int:
    """Tell what grew by the samples of an earlier soak, of one that was cut off, too."""
    samples, _ = read_samples(options.again)
    _draw(options.svg, options.again)
    print_document(growth_report(samples))
    return HELD


def read_samples(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the samples of *folder* and its other lines; a last line that is cut is left out."""
    texts = (folder / "samples.jsonl").read_text("utf-8").splitlines()
    lines: list[dict[str, Any]] = [json.loads(line) for line in texts if line.endswith("}")]
    return [line for line in lines if "services" in line], [line for line in lines if "services" not in line]


def _draw(also: Path | None, folder: Path) -> None:
    samples, others = read_samples(folder)
    kills = [line["at"] for line in others if "killed" in line]
    done = samples[-1]["work"]["done"] if samples else 0
    title = f"{done:,} runs on one platform, {len(kills)} kills"
    for place in filter(None, (folder / "soak.svg", also)):
        place.write_text(soak_svg(samples, kills, title), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
