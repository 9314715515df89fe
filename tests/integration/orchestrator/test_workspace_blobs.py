"""Files between a worker's scratch copy and its run: sizes are those of what is stored, and no call is lost."""

import errno
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import DatabaseUrl
from tests.support.engine.background_machine import BackgroundRun
from tests.support.engine.goal_machine import goal_run
from tests.support.engine.machine import RUN, use
from tests.support.tas.tas_peer import TasPeer
from tests.support.worker.running_worker import serving

from towpath import ToolContext, tool
from towpath_contracts import facts
from towpath_contracts.canonical import digest, digest_text
from towpath_contracts.events import log as ev
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_contracts.rpc import RECORD_OUTCOME
from towpath_contracts.tools.calls import ToolFailure
from towpath_contracts.tools.internal_outcomes import InternalOutcomeAnswer, RecordInternalOutcome
from towpath_contracts.tools.workspace import MAX_FILE_BYTES, MAX_WORKSPACE_BYTES, FileChange
from towpath_embedded.servers.nats import Nats
from towpath_engine.handlers.calls.internal_tools import digests_for
from towpath_fabric.nats.bus import Bus
from towpath_fabric.postgres.pool import open_pool
from towpath_fabric.settings import Settings
from towpath_orchestrator.adapters.run_store import RunStore
from towpath_orchestrator.app.commit.inbox import InboxFact
from towpath_orchestrator.app.commit.workspace_texts import WorkspaceTextStore
from towpath_orchestrator.app.dispatch.effect_dispatcher import record_outcome

BROKEN = "broken.txt"


@tool(effect_class="irreversible", name="files.leave", workspace="scratch")
def leave(context: ToolContext, name: str, content: str, times: int = 1) -> str:
    """Write files into the scratch copy.

    Args:
        name: Of the file.
        content: What it holds; `binary` stands for bytes that are no text.
        times: How many of them.
    """
    assert context.workspace is not None
    for number in range(times):
        data = b"\xff\xfe" if content == "binary" else content.encode()
        (context.workspace / (f"{number}-{name}" if times > 1 else name)).write_bytes(data)
    return "done"


@tool(effect_class="pure", name="files.nest", workspace="scratch")
def nest(context: ToolContext, depth: int, name: str) -> str:
    """Make folders inside each other, and a file beside them.

    Args:
        depth: How many of them.
        name: Of the file, in Latin 1.
    """
    assert context.workspace is not None
    (context.workspace / os.fsdecode(name.encode("latin-1"))).write_bytes(bytes(100_000))
    at = os.open(context.workspace, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    return str(context.workspace)


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder in which a test that fails may leave what pytest could not remove."""
    yield tmp_path
    subprocess.run(["rm", "-rf", tmp_path], check=True)


@pytest.fixture
def _unreadable(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that can't give back one file any more."""
    read = Path.read_bytes

    def or_fail(place: Path) -> bytes:
        if place.name == BROKEN:
            raise OSError(errno.EIO, "Input/output error", str(place))
        return read(place)

    monkeypatch.setattr(Path, "read_bytes", or_fail)
    yield


@pytest.mark.usefixtures("_unreadable")
async def test_d6_a_call_that_happened_stays_succeeded_where_its_changes_are_lost(nats_server: Nats) -> None:
    """Row D6: changes of a scratch copy come back as one set or not at all; what happened never becomes failed."""
    lost = [
        ({"name": "a.bin", "content": "binary"}, "changes_refused", "a.bin"),
        ({"name": "big.txt", "content": "x" * (MAX_FILE_BYTES + 1)}, "workspace_full", "big.txt"),
        ({"name": f"{'n' * 70}.txt", "content": "x", "times": 1_001}, "workspace_full", ""),
        ({"name": BROKEN, "content": "x"}, "workspace_unreadable", BROKEN),
    ]
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=[leave]):
        for args, code, path in lost:
            outcome = await tas.call("files.leave", args, effect_class="irreversible")
            assert (outcome.status, outcome.result, outcome.changes) == ("succeeded", "done", ()), code
            assert outcome.changes_lost is not None and outcome.changes_lost.code == code
            assert path in outcome.changes_lost.path
        outcome = await tas.call("files.leave", {"name": "a.txt", "content": "x"}, effect_class="irreversible")
        assert [change.path for change in outcome.changes] == ["a.txt"] and outcome.changes_lost is None


@pytest.mark.parametrize(("depth", "name"), [(3_000, "a.txt"), (1, "a\xff.txt")])
async def test_d6_whatever_a_program_leaves_in_its_copy_the_call_has_one_outcome_and_the_copy_goes(
    nats_server: Nats, deep: Path, monkeypatch: pytest.MonkeyPatch, depth: int, name: str
) -> None:
    """Row D6: an error while the copy is read would leave the call without an outcome, to be made again and again."""
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=[nest]):
        outcome = await tas.call("files.nest", {"depth": depth, "name": name}, effect_class="pure")
        assert outcome.status == "succeeded" and outcome.changes == ()
        assert outcome.changes_lost is not None
        assert outcome.changes_lost.code in {"workspace_unreadable", "changes_refused"}
        assert not Path(str(outcome.result)).parent.exists()
    assert os.listdir(deep) == []  # noqa: PTH208


async def test_d6_a_call_that_has_no_place_for_its_files_has_not_begun(
    nats_server: Nats, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Row D6: a full disk, or files that nobody hands out, fail the call before it begins; the worker goes on."""
    args = {"name": "a.txt", "content": "x"}
    async with TasPeer(nats_server.url()) as tas, serving(nats_server.url(), tools=[leave]):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
        failed = [await tas.call("files.leave", args, effect_class="irreversible")]
        full = tmp_path / "full"
        full.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(full))
        make = Path.mkdir

        def no_space(place: Path, mode: int = 0o777, *, parents: bool = False, exist_ok: bool = False) -> None:
            if place.name == "workspace":
                raise OSError(errno.ENOSPC, "No space left on device", str(place))
            make(place, mode, parents, exist_ok)

        monkeypatch.setattr(Path, "mkdir", no_space)
        failed.append(await tas.call("files.leave", args, effect_class="irreversible"))
        monkeypatch.undo()
        for outcome in failed:
            assert outcome.status == "failed" and outcome.failure is not None
            assert (outcome.failure.code, outcome.failure.began) == ("workspace_unavailable", False)
        assert (await tas.call("files.leave", args, effect_class="irreversible")).status == "succeeded"


async def test_d6_sizes_are_those_of_what_is_stored_and_a_fact_loads_no_more_than_a_workspace(
    database: DatabaseUrl,
) -> None:
    """Row D6, limits: what a worker says of a size counts for nothing; too much is refused whole, and reported."""
    texts = {name: letter * 600_000 for name, letter in (("big", "b"), ("also", "a"))} | {"small": "s"}
    digests = {name: digest_text(text) for name, text in texts.items()}
    async with await open_pool(database("orchestrator"), 1, "test") as pool:
        for name, text in texts.items():
            add = "INSERT INTO runs.blob (project, digest, data, size) VALUES ('default', $1, $2, $3)"
            await pool.execute(add, digests[name], text.encode(), len(text))
        texts_of_runs = WorkspaceTextStore(pool, RunStore(pool))
        for changed, fault in (
            ({"small.txt": digests["small"], "big.txt": digests["big"]}, "big.txt would have 600000 bytes"),
            (
                {"small.txt": digests["small"], "gone.txt": digest_text("gone")},
                "what they hold is not stored: 'gone.txt'",
            ),
            ({"small.txt": digests["small"], "nul.txt": "sha256:\0"}, "what they hold is not stored: 'nul.txt'"),
            ({"small.txt": digests["small"]}, ""),
        ):
            run = goal_run()
            run.decide(use("scratch"))
            found = tuple(FileChange(path=path, digest=digest, size=1) for path, digest in changed.items())
            fact = facts.ToolFinishedFact(
                run_id=run.state.run_id, execution_id=run.call_id(), status="succeeded", result="ok", changes=found
            )
            item = InboxFact(fact=fact, text=fact.model_dump_json())
            await texts_of_runs.load({run.state.run_id: run.state}, {run.state.run_id: [item]})
            assert facts.fact_adapter.validate_json(item.text) == item.fact, "what is stored is what was folded"
            run.feed(item.fact)
            assert run.events(ev.ToolCallFinished)[-1].status == "succeeded"
            notes = [note.text for note in run.events(ev.NoteAdded)]
            assert bool(run.events(ev.WorkspaceChanged)) is not bool(fault) and fault in "".join(notes)
        run = BackgroundRun(mounts=texts)
        run.plan()
        run.decide(use("workspace_grep", text="zzz"))
        asked = facts.InternalToolPermittedFact(run_id=run.state.run_id, execution_id=run.call_id())
        item = InboxFact(fact=asked, text="")
        await texts_of_runs.load({run.state.run_id: run.state}, {run.state.run_id: [item]})
        assert isinstance(item.fact, facts.InternalToolPermittedFact) and len(digests_for(run.state, asked)) == 3
        assert 600_000 < sum(map(len, item.fact.contents.values())) <= MAX_WORKSPACE_BYTES


async def test_the_ledger_gets_an_outcome_without_its_contents_where_it_cannot_take_them(nats_server: Nats) -> None:
    tas, orchestrator = (Bus(name, Settings.load(nats_url=nats_server.url())) for name in ("tas", "orchestrator"))
    recorded: list[RecordInternalOutcome] = []

    async def take(request: RecordInternalOutcome) -> InternalOutcomeAnswer:
        if request.tool == "later":
            raise ProblemError(problem("unavailable", "the database is away", retry_after_s=1))
        if "\\x00" in str(request.result):
            raise ProblemError(problem("request_invalid", "a value can't be stored"))
        recorded.append(request)
        return InternalOutcomeAnswer(execution_id=request.execution_id)

    tas.subscriber(RECORD_OUTCOME)(take)
    await tas.connect()
    await tas.broker.start()
    await orchestrator.connect()
    try:
        request = RecordInternalOutcome(run_id=RUN, project="p", execution_id=RUN, tool="plan_read", status="succeeded")
        for result in ({"text": "x" * 2_000_000}, {"text": "a\x00b"}):
            assert await record_outcome(orchestrator, request.model_copy(update={"result": result})) is not None
            assert recorded[-1].result["left_out"] and recorded[-1].result["digest"] == digest(result)
        failure = ToolFailure(code="path_invalid", message="x" * 2_000_000, began=False)
        failed = request.model_copy(update={"status": "failed", "failure": failure})
        assert await record_outcome(orchestrator, failed) is not None
        assert recorded[-1].failure == ToolFailure(code="path_invalid", message="", began=False)
        assert await record_outcome(orchestrator, request.model_copy(update={"result": {"a": 1}})) is not None
        assert recorded[-1].result == {"a": 1}, "what fits is returned whole"
        assert await record_outcome(orchestrator, request.model_copy(update={"tool": "later"})) is None, (
            "reported again later"
        )
    finally:
        await orchestrator.close()
        await tas.close()
