"""`towpath workspace ls|cat|diff|export RUN`: the virtual files of a run, and its plan."""

import difflib
from pathlib import Path
from uuid import UUID

from cyclopts import App

from towpath.cli.shared import short_ids
from towpath.cli.shared.options import CONNECTION_OPTIONS, ConnectionOptions, examples
from towpath.cli.shared.output import Column, OutputPrinter, show_text
from towpath.cli.shared.text import one_line
from towpath.client.client import Client
from towpath_contracts.base import JsonObject
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.text import counted
from towpath_contracts.tools.workspace import WorkspaceFileView, WorkspaceView, clean_path

app = App(
    name="workspace",
    help="The files and the plan of a run.",
    help_epilogue=examples("towpath workspace ls 0192f3", "towpath workspace export 0192f3 review/"),
)

_COLUMNS = (
    Column("path", "path"),
    Column("size", "size"),
    Column("version", "version"),
    Column("", lambda row: "read-only" if row["read_only"] else ""),
)


@app.command(name="ls", help_epilogue=examples("towpath workspace ls 0192f3", "towpath workspace ls 0192f3 -o json"))
async def ls(run: str, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """List the files of a run, and its plan.

    Args:
        run: The run's id, or its beginning or end.
    """
    async with common.connect() as client:
        view = await client.workspaces.list(await short_ids.resolve_run_id(client, run))
    out = common.out()
    if not out.for_people:
        out.data(view.model_dump(mode="json"))
        return
    out.rows("files", [file.model_dump(mode="json") for file in view.files], _COLUMNS, empty="No files.")
    _show_plan(out, view)


@app.command(
    name="cat",
    help_epilogue=examples(
        "towpath workspace cat 0192f3 notes/review.md", "towpath workspace cat 0192f3 notes/review.md --version 1"
    ),
)
async def cat(
    run: str, path: str, /, *, version: int | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Print a file of a run.

    Args:
        run: The run's id, or its beginning or end.
        path: The file.
        version: As an earlier version was.
    """
    async with common.connect() as client:
        text = await client.workspaces.read(await short_ids.resolve_run_id(client, run), path, version)
    if common.is_plain:
        show_text(text)
    else:
        common.out().data({"path": path, "version": version, "content": text})


@app.command(name="diff", help_epilogue=examples("towpath workspace diff 0192f3", "towpath workspace diff 0192f3 a.py"))
async def diff(
    run: str, path: str | None = None, /, *, since: int | None = None, common: ConnectionOptions = CONNECTION_OPTIONS
) -> None:
    """Show what a run wrote: every file against its version before, or against nothing where it is new.

    Args:
        run: The run's id, or its beginning or end.
        path: This file alone.
        since: Against this version instead of the one before; 0 is nothing.
    """
    lines: list[str] = []
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        view = await client.workspaces.list(run_id)
        for file in _wanted(view, path):
            first = since if since is not None else file.version - 1
            first, before = await _earlier(client, run_id, file.path, first, wanted=since is not None)
            after = await client.workspaces.read(run_id, file.path)
            lines += _unified(file, first, before, after)
    if common.is_plain:
        show_text("".join(lines))
    else:
        common.out().data({"diff": "".join(lines), "deleted": list(view.deleted)})


@app.command(
    name="export",
    help_epilogue=examples(
        "towpath workspace export 0192f3 review/", "towpath workspace export 0192f3 review/ -o json"
    ),
)
async def export(run: str, folder: Path, /, *, common: ConnectionOptions = CONNECTION_OPTIONS) -> None:
    """Write the files of a run into a new folder of this machine.

    Args:
        run: The run's id, or its beginning or end.
        folder: It must not exist, or be empty.
    """
    texts: dict[str, str] = {}
    async with common.connect() as client:
        run_id = await short_ids.resolve_run_id(client, run)
        view = await client.workspaces.list(run_id)
        with common.out().progress("Reading files") as shown:
            for file in view.files:
                texts[file.path] = await client.workspaces.read(run_id, file.path)
                shown.count(len(texts), "files", of=len(view.files))
    written = _write(folder, texts)
    out = common.out()
    if out.for_people:
        out.write(f"  {counted(len(written), 'file')} in {folder}")
    else:
        out.data({"folder": str(folder), "files": written})


def _write(folder: Path, texts: dict[str, str]) -> list[str]:
    if folder.exists() and any(folder.iterdir()):
        raise ProblemError(problem("request_invalid", f"{folder} is not empty"))
    for path, text in texts.items():
        place = folder / clean_path(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, "utf-8")
    return list(texts)


async def _earlier(client: Client, run_id: UUID, path: str, version: int, *, wanted: bool) -> tuple[int, str]:
    """Return a version and its text. Nothing is version 0; so is one that deleted the file, unless it was asked for."""
    if version < 1:
        return 0, ""
    try:
        return version, await client.workspaces.read(run_id, path, version)
    except ProblemError as error:
        if wanted or error.problem.code != "file_not_found":
            raise
        return 0, ""


def _wanted(view: WorkspaceView, path: str | None) -> list[WorkspaceFileView]:
    found = [file for file in view.files if (not file.read_only if path is None else file.path == path)]
    if path is not None and not found:
        raise ProblemError(problem("file_not_found", f"run {view.run_id} has no file {path}", run_id=str(view.run_id)))
    return found


def _unified(file: WorkspaceFileView, first: int, before: str, after: str) -> list[str]:
    old = f"{file.path}@v{first}" if first else "/dev/null"
    new = f"{file.path}@v{file.version}"
    made = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), old, new)
    return [line if line.endswith("\n") else f"{line}\n" for line in made]


def _show_plan(out: OutputPrinter, view: WorkspaceView) -> None:
    if view.plan is None:
        return
    out.write(f"\n  plan ({view.plan['status']}): {one_line(str(view.plan['objective']), 96)}", "bold")
    for step in view.plan["steps"]:
        out.write(f"  {_step(step)}", "green" if step["status"] == "done" else "dim")
        for note in step.get("notes", ()):
            out.write(f"         {one_line(note, 96)}", "dim")


def _step(step: JsonObject) -> str:
    mark = {"done": "✓", "blocked": "✕", "in_progress": "◐"}.get(str(step["status"]), "·")
    return f"{mark} {step['step_id']} {one_line(str(step['title']), 80)}"
