"""How fast the console opens on a platform with many runs: every page, in a real browser, with all its files cold.

The embedded platform executes a few runs of the sample, which are then cloned in the database until there are 100,000
runs, 1,000 open gates and all that belongs to them; a run of 2,000 events is executed as it is. Then Chromium opens
every page, five times each. Usage: `uv run --group dev --group browser python bench/console.py [--runs N] [--rounds N]
[--json FILE] [--page docs/benchmarks.md]`. It takes about ten minutes, and ends with 1 if a page is refused, has its
first paint (first contentful paint, median) after 300 ms, or takes more than 250 kB.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import asyncpg
import httpx2
import yaml
from playwright.async_api import async_playwright

from compare import machine, say
from comparison.table import in_page, rows
from crowd.addresses import addresses
from crowd.browser_visits import ARGUMENTS, HOW, Visit, browser_path, visits
from crowd.executed_runs import Executed, execute
from crowd.platform_rows import fill
from towpath_embedded.platform import Platform
from towpath_embedded.processes.role_process import WorkerLaunch
from towpath_embedded.servers.postgres_identity import temporary_folder

HERE = Path(__file__).parent
SAMPLE = HERE.parent / "examples" / "support"
PAINT_MS, BYTES = 300, 250_000
HEADING = ("page", "first paint ms", "fastest", "server ms", "kB")


def policy(folder: Path) -> Path:
    """Write the sample's policy with a rule for the tool of the long run."""
    text = yaml.safe_load((SAMPLE / "policy.yaml").read_text("utf-8"))
    text["rules"].append({"name": "bench-echo", "tool": "echo_pure", "effect": "allow"})
    path = folder / "policy.yaml"
    path.write_text(yaml.safe_dump(text), "utf-8")
    return path


async def known_ids(api: httpx2.AsyncClient, executed: Executed) -> dict[str, str]:
    """Return what stands for the parts of addresses."""

    async def first(path: str, name: str) -> dict[str, Any]:
        return dict((await api.get(path)).raise_for_status().json()[name][0])

    early = (await api.get("/v1/runs", params={"limit": 200})).json()["runs"][-1]["run_id"]
    return {
        "run_id": executed.long,
        "waiting_run_id": executed.waiting,
        "early_run_id": early,
        "gate_id": (await first(f"/v1/gates?status=pending&run_id={executed.waiting}", "gates"))["gate_id"],
        "entry_id": str((await first("/v1/audit?limit=1&tool=orders.refund", "entries"))["entry_id"]),
        "erasure_id": (await first("/v1/erasures?limit=1", "erasures"))["erasure_id"],
        "letter_id": str((await first("/v1/dead-letters?limit=1", "letters"))["dead_letter_id"]),
        "network": "support",
        "tool": "orders.refund",
        "version": "1",
        "step": "250",
        "worker_id": "0" * 32,
    }


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Start, fill and visit."""
    program = browser_path()
    if program is None:
        sys.exit(f"no browser was found: {HOW}")
    with temporary_folder() as folder:
        platform = Platform(
            folder / "data",
            environment={"SHOP_DATABASE": str(folder / "orders.sqlite3")},
            role_environment={
                "tas": {"TOWPATH_POLICY_FILE": str(policy(folder)), "TOWPATH_SINGLE_PERSON": "true"},
            },
            workers=[WorkerLaunch(modules=(str(SAMPLE / "tools.py"), str(HERE / "echo_tools.py")))],
        )
        async with platform:
            return await measured(platform, options, program)


async def measured(platform: Platform, options: argparse.Namespace, program: str) -> dict[str, Any]:
    """Fill the database of a running platform and visit its pages."""
    headers = platform.access.authorization()
    async with httpx2.AsyncClient(base_url=platform.gateway_url, headers=headers, timeout=60) as api:
        say("executing the runs that are cloned")
        executed = await execute(api, SAMPLE)
        say(f"cloning them until there are {options.runs:,} runs")
        owner = await asyncpg.connect(platform.dsn())
        filled = await fill(owner, executed, options.runs, options.gates)
        await owner.close()
        say(f"visiting the pages, {options.rounds} times each")
        known = await known_ids(api, executed)
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=program, args=list(ARGUMENTS))
        await browser.new_context()  # the first window pays for the start of the browser
        before = os.getloadavg()[0]
        found = await visits(browser, platform.gateway_url, addresses(known), headers, options.rounds)
        await browser.close()
    names = {value: f"{{{name}}}" for name, value in known.items() if name.endswith("run_id")}
    return {
        "workload": "console",
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "load": [round(before, 1), round(os.getloadavg()[0], 1)],
        "rows": filled,
        "rounds": options.rounds,
        "pages": [visit._asdict() | {"path": _named(visit.path, names)} for visit in found],
    }


def _named(path: str, names: dict[str, str]) -> str:
    for value, name in names.items():
        path = path.replace(value, name)
    return path


def broken(visit: Visit) -> list[str]:
    """Return the limits that a page breaks."""
    return [
        *([f"{visit.path}: status {visit.status}"] if visit.status != 200 else []),
        *([f"{visit.path}: first paint after {visit.paint_ms:.0f} ms"] if visit.paint_ms > PAINT_MS else []),
        *([f"{visit.path}: {visit.bytes / 1000:.0f} kB"] if visit.bytes > BYTES else []),
    ]


def text(found: dict[str, Any]) -> str:
    """Return what was measured as Markdown."""
    pages = [Visit(**page) for page in found["pages"]]
    counted = ", ".join(f"{number:,} {what}" for what, number in found["rows"].items())
    said = (
        f"Measured {found['date']} on {found['machine']}, other work on it: load {found['load'][0]} before and "
        f"{found['load'][1]} afterwards. In the database: {counted}. Median of {found['rounds']} visits."
    )
    body = [
        (f"`{p.path}`", *map("{:.0f}".format, (p.paint_ms, p.least_paint_ms, p.server_ms, p.bytes / 1000)))
        for p in pages
    ]
    return f"{said}\n\n{rows(HEADING, body)}"


def main() -> None:
    """Measure, then print, store, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000, help="how many runs there are")
    parser.add_argument("--gates", type=int, default=1_000, help="how many of them wait for a person")
    parser.add_argument("--rounds", type=int, default=5, help="how often each page is opened")
    parser.add_argument("--json", type=Path, help="store what was measured")
    parser.add_argument("--page", type=Path, help="put the table between the marks of a page")
    options = parser.parse_args()
    found = asyncio.run(measure(options))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(text(found))
    if options.page:
        options.page.write_text(in_page(options.page.read_text("utf-8"), text(found), "console"), "utf-8")
    faults = [fault for page in found["pages"] for fault in broken(Visit(**page))]
    for fault in faults:
        print(f"broken: {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
