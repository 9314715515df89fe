"""Runs that one would be compared with: the one that it is a retry or a fork of, its forks, and its like of late.

Only what the list of runs gives is looked through: the newest runs of its labels and of its network.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from towpath_console.api import Api, ApiRefusalError
from towpath_console.pages.shared import together

NEWEST = 50
"""Runs of the same network that are looked through, newest first; forks of the run are among them."""

SUGGESTED = 12
LABELS = 3
"""Of a run with more labels the first count: each is a question."""

LONGEST_LABEL = 256
"""By which runs can be listed; a task may come with longer ones."""


async def comparable_runs(api: Api, run: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what *run* may be compared with, the nearest first: each run with `why` it is named."""
    parent = (run.get("forked_from") or {}).get("run_id")
    labels = [f"{name}={value}" for name, value in sorted((run.get("labels") or {}).items())]
    labels = [label for label in labels if len(label) <= LONGEST_LABEL][:LABELS]
    found = await together(
        parent=_run(api, parent),
        network=api.get("/v1/runs", network=run["network"], limit=NEWEST),
        **{label: api.get("/v1/runs", label=label, limit=SUGGESTED) for label in labels},
    )
    suggested: dict[str, dict[str, Any]] = {}
    for other, why in _in_order(run, found, labels):
        if other["run_id"] != run["run_id"]:
            suggested.setdefault(other["run_id"], {**other, "why": why})
    return list(suggested.values())[:SUGGESTED]


def _in_order(
    run: Mapping[str, Any], found: Mapping[str, Mapping[str, Any]], labels: list[str]
) -> Iterator[tuple[dict[str, Any], str]]:
    if "run_id" in (parent := dict(found["parent"])):
        yield parent, _forked("it is", run)
    of_network = found["network"]["runs"]
    for other in of_network:
        if (other.get("forked_from") or {}).get("run_id") == run["run_id"]:
            yield other, _forked("is", other, "of it")
    task = run.get("user_message")
    for other in of_network:
        if task and other.get("user_message") == task:
            yield other, "the same task"
    for label in labels:
        for other in found[label]["runs"]:
            yield other, label
    for other in of_network:
        yield other, "the same network"


def _forked(begins: str, run: Mapping[str, Any], ends: str = "of this") -> str:
    """Say how a fork is of its parent: from the first step it is a retry."""
    step = run["forked_from"]["step"]
    return f"{begins} a retry {ends}" if step == 1 else f"{begins} a fork {ends}, from step {step}"


async def _run(api: Api, run_id: str | None) -> dict[str, Any]:
    """Return a run; nothing where it is gone, or is not to be seen."""
    try:
        return await api.get(f"/v1/runs/{run_id}") if run_id else {}
    except ApiRefusalError:
        return {}
