"""The output of `towpath up`: the table of addresses, one line per notice, problems with their remedy.

With `--json` standard output carries exactly one JSON object; everything else goes to standard error.
"""

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from towpath.cli.shared.table import fold_line
from towpath.cli.shared.text import printable
from towpath_contracts.problems.registry import Problem
from towpath_embedded.refused_files import FileFate
from towpath_embedded.start_progress import StartProgress
from towpath_fabric.clock import wall
from towpath_fabric.telemetry.log_follower import readable_line

WIDEST_VALUE = 60  # longer values push their note to the right instead of all notes
LABEL_WIDTH = 10
_DENIES = "every call is denied until there is one: towpath up --policy FILE, --profile NAME or towpath policy apply"


class UpConsole:
    """Writes for a person, or for a program when *as_json*."""

    def __init__(self, *, as_json: bool, shows_logs: bool = False) -> None:
        self._as_json = as_json
        self.shows_logs = shows_logs
        self.stops_where_refused = False
        """Whether a refused file ends the start, so that saving it begins nothing."""

        self._out = Console(stderr=as_json, highlight=False)
        self._progress = StartProgress(shown=self._out.is_terminal and not as_json)
        self.working = self._progress.working

    def ready(self, state: dict[str, Any], *, seconds: float, ephemeral: bool) -> None:
        """Show where everything is."""
        self._progress.close()
        if self._as_json:
            sys.stdout.write(json.dumps({**state, "ready_s": round(seconds, 2), "ephemeral": ephemeral}) + "\n")
            sys.stdout.flush()
            return
        self._table(_rows(state, ephemeral=ephemeral))
        count = len(state["processes"])
        self._print(Text(f"\n  ready in {seconds:.1f} s · {count} processes · Ctrl-C stops all in order"))
        for step in next_steps(state):
            self._folded("  ", step, "dim")
        self._print()

    def attached(self, state: dict[str, Any]) -> None:
        """Show where everything is of a platform that another process runs."""
        if self._as_json:
            sys.stdout.write(json.dumps(state) + "\n")
            sys.stdout.flush()
            return
        self._table([row for row in _rows(state, ephemeral=False) if row[0] != "Data"])
        whose = f"the platform of pid {state['pid']}"
        self._print(Text(f"\n  attached to {whose} · Ctrl-C leaves it running\n"))

    def services(self, state: dict[str, Any], *, seconds: float) -> None:
        """Show where services answer that were started alone."""
        self._progress.close()
        if self._as_json:
            sys.stdout.write(json.dumps({**state, "ready_s": round(seconds, 2)}) + "\n")
            sys.stdout.flush()
            return
        self._table([(name, one["health_url"], "") for name, one in state["processes"].items()])
        count = len(state["processes"])
        told = f"{count} process{'' if count == 1 else 'es'} · Ctrl-C stops {'it' if count == 1 else 'them'} alone"
        self._print(Text(f"\n  ready in {seconds:.1f} s · {told}\n"))

    def _print(self, *texts: Text, soft_wrap: bool = False) -> None:
        with self._progress.hidden():
            self._out.print(*texts, soft_wrap=soft_wrap)

    def _table(self, rows: Sequence[tuple[str, str, str]]) -> None:
        # Lines of our own instead of a table's: addresses are copied, so they are never cut or wrapped.
        rows = [(label, printable(value), printable(note)) for label, value, note in rows]
        width = max(len(value) for _, value, _ in rows if len(value) <= WIDEST_VALUE)
        labels = max(LABEL_WIDTH, *(len(label) + 2 for label, _, _ in rows))
        for label, value, note in rows:
            start = [(f"  {label:<{labels}}", "bold"), (f"{value:<{width}}", "cyan")]
            line = Text.assemble(*start, (f"  {note}", "dim"))
            if self._out.is_terminal and note and line.cell_len > self._out.width:
                self._print(Text.assemble(*start), soft_wrap=True)
                line = Text(f"{'':<{labels + 2}}{note}", style="dim")
            self._print(line, soft_wrap=True)

    def notice(self, line: str, style: str = "") -> None:
        """Show one line with the time of day."""
        self._folded(f"  {wall().astimezone():%H:%M:%S}  ", line, style)

    def tell_of_projects_nearby(self, *, is_bare: bool) -> None:
        """Where nothing of a person is served, say where a project lies: probably that folder was meant."""
        from towpath.project.nearby_projects import nothing_served  # no start waits for it

        if is_bare and (elsewhere := nothing_served(Path())):
            self.notice(elsewhere, "yellow")

    def _folded(self, start: str, line: str, style: str) -> None:
        """Print *line* behind *start*, folded between words where a terminal would break them."""
        line = printable(line)
        room = self._out.width - len(start) if self._out.is_terminal else len(line)
        for text in fold_line(line, room):
            self._print(Text(f"{start}{text}", style=style), soft_wrap=True)
            start = " " * len(start)

    def keys(self, known: Mapping[str, str]) -> None:
        """Show which keys are taken from here on."""
        self._folded("  ", " · ".join(f"{key} {what}" for key, what in known.items()), "dim")
        self._print()

    def refused(self, file: str, faults: Sequence[str], fate: FileFate = FileFate.REFUSED) -> None:
        """Show what is wrong with a file that was refused, or with a script, which is read when a run asks."""
        what = f"{file} {fate}. Mend it{'' if self.stops_where_refused else ' and save it'}:"
        self._folded(f"  {wall().astimezone():%H:%M:%S}  ", what, "bold red")
        for fault in faults:
            self._folded(" " * 12, fault, "red")

    def log(self, name: str, line: str) -> None:
        """Show one line of a child's log."""
        self._print(Text.assemble((f"  {name:<14}", "dim"), printable(readable_line(line))), soft_wrap=True)

    def problem(self, problem: Problem) -> None:
        """Show what can't be done and what to do about it."""
        self._progress.close()
        if self._as_json:
            sys.stdout.write(problem.model_dump_json() + "\n")
            return
        error = Console(stderr=True, highlight=False)
        error.print(Text(f"{problem.code}  {problem.title}", style="bold red"))
        error.print(Text(printable(problem.detail)), soft_wrap=True)
        error.print(Text(printable(problem.remedy), style="green"), soft_wrap=True)


def _console_line(state: Mapping[str, Any]) -> tuple[str, str, str]:
    if state.get("sign_in_url"):
        return "Console", state["sign_in_url"], "open it: the link lets one browser in, once"
    return "Console", state["gateway_url"], ""


def _ways_in(state: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        ("Token", state["authorization_file"], "for curl --header @FILE"),
        *([] if Path(state["data"]) == Path(".towpath").absolute() else [("Shell", shell_line(state), "")]),
    ]


def shell_line(state: Mapping[str, Any]) -> str:
    """Return the line that lets the command line of another shell in, which finds a platform on ./.towpath alone.

    It reads the token where it lies: what is printed here may be recorded, and a token is a secret.
    """
    token = f"$(cut -d' ' -f3 {shlex.quote(state['authorization_file'])})"
    return f'export TOWPATH_SERVER={state["gateway_url"]} TOWPATH_API_KEY="{token}"'


def _rows(state: dict[str, Any], *, ephemeral: bool) -> list[tuple[str, str, str]]:
    kept = "thrown away at the end" if ephemeral else "kept between runs; towpath up --ephemeral to throw away"
    gateway = state["gateway_url"]
    rows = [
        _console_line(state),
        ("API", f"{gateway}/v1", "described at /docs, the bus at /asyncapi"),
        ("MCP", f"{gateway}/mcp", "for your editor: towpath mcp config"),
        ("Metrics", f"{gateway}/metrics", ""),
    ]
    return [
        *(rows if gateway else []),
        *(_ways_in(state) if state.get("sign_in_url") else []),
        ("NATS", state["nats_url"], "JetStream"),
        ("Database", state["database_url"], "PostgreSQL on a private socket"),
        *([policy_line(state["policy"])] if state.get("policy") else []),
        *([_loaded_line(state["loaded"])] if state.get("loaded") else []),
        *([_models_line(state["models"])] if "models" in state else []),
        *(
            [("Project", state["project"], "what is started here; change it and start again")]
            if state.get("project")
            else []
        ),
        ("Data", state["data"], kept),
        ("Logs", state["logs"], "one file per process; towpath logs shows them"),
        *(
            [("Sample", state["sample"], "its tools, policy and network: change them there")]
            if state.get("sample")
            else []
        ),
    ]


def _loaded_line(loaded: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return how much there is of what a person named, and how many of their files were refused."""
    parts = [f"{loaded[kind]} {kind if loaded[kind] != 1 else kind[:-1]}" for kind in ("networks", "agents", "tools")]
    if waiting := loaded.get("need_approval"):
        parts[-1] += f" ({waiting} need{'s' if waiting == 1 else ''} approval)"
    if stayed := loaded.get("stayed"):
        as_before = f"{stayed} as published before"
        parts = (
            [f"{stayed} network{'s' if stayed != 1 else ''} as published before"]
            if not loaded["networks"]
            else [f"{parts[0]} and {as_before}", *parts[1:]]
        )
    refused = loaded["refused"]
    counts = ((refused, "file", "refused"), (loaded.get("warnings", 0), "warning", ""))
    found = [f"{count} {what}{'s' if count != 1 else ''} {how}".rstrip() for count, what, how in counts if count]
    return "Loaded", " · ".join(parts), f"{', '.join(found)}: see above" if found else "nothing was refused"


def _models_line(models: Sequence[str]) -> tuple[str, str, str]:
    if models:
        return "Models", ", ".join(models), "have a key here"
    return "Models", "scripted alone", "no key is set: GEMINI_API_KEY, OPENAI_API_KEY or ANTHROPIC_API_KEY"


def next_steps(state: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what somebody may do next, on a platform with the sample, or with nothing of theirs."""
    if state.get("sample"):
        return (
            'next: open the console, or: towpath run support "Refund order 8812" --watch',
            "and then: towpath demo crash kills the orchestrator mid-run, and shows that no tool was called twice;",
            "towpath chaos does so with every part, over and over",
        )
    return (
        ("nothing of yours was named; to try it with a help desk: towpath up --sample",) if state.get("is_bare") else ()
    )


def policy_line(policy: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return label, value and note; a version that people made says by whom and from what."""
    refused = policy.get("refused")
    if not policy["version"]:
        return "Policy", "none", f"every call is denied until {refused} is mended: see above" if refused else _DENIES
    rules = f"{policy['rules']} rule{'s' if policy['rules'] != 1 else ''}"
    version = f"version {policy['version']} ({rules})"
    source = str(policy["source"])
    if policy["applied_by"] != "file":
        return "Policy", version, f"last changed by {policy['applied_by']}{f': {source}' if source else ''}"
    return (
        "Policy",
        f"{source.removeprefix('profile ') if source.startswith('profile ') else Path(source).name}, {version}",
        "as it was before it was refused: see above" if refused else "",
    )
