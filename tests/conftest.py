"""Real servers for the tests: given by the environment, else in containers, else embedded. Never skipped."""

import asyncio
import contextlib
import gc
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

import asyncpg
import pytest
from hypothesis import settings as hypothesis_settings
from tests.support import browser, javascript, pgbouncer
from tests.support.compiled_tests import compile_tests
from tests.support.deploy import check_packages
from tests.support.monitoring import promtool
from tests.support.platform.containers import docker_answers, nats_container, postgres_container

from towpath_embedded.servers.nats import Nats
from towpath_embedded.servers.postgres import Postgres
from towpath_embedded.servers.postgres_identity import temporary_folder
from towpath_fabric import garbage_collector
from towpath_fabric.postgres.migrations import LOCK_KEY, migrate

if TYPE_CHECKING:
    from tests.support.cli.printed_documents import PrintedDocuments

MAY_LACK = (javascript, pgbouncer, promtool)
DatabaseUrl = Callable[..., str]
ROLES = ("orchestrator", "tas", "gateway", "log_writer")
PASSWORD = "towpath-test"  # for servers that ask for one; they hold nothing but test data
UNIT = Path(__file__).parent / "unit"


# Several processes of tests, and hundreds of services, would each compile the same modules again.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Whoever runs the tests may have selected a context: no test is to ask that platform.
os.environ["TOWPATH_CONTEXTS_FILE"] = str(Path(__file__).parent / "no-contexts.json")

# An example's first run may build models, and the machine may be busy: slow is not wrong.
hypothesis_settings.register_profile("towpath", deadline=None)
hypothesis_settings.load_profile("towpath")

MEMORY_FOLDER = Path("/dev/shm")
ROOM_BYTES = 4 * 2**30
"""Ten times of what all tests together have there at a time; containers often give less."""


def _keep_files_in_memory() -> None:
    """Have temporary files in memory where there is room: the servers of tests write some hundred thousand of them.

    Nothing in the tests outlives a process by a disk alone. Called before the processes of tests start.
    """
    if "TMPDIR" in os.environ or not os.access(MEMORY_FOLDER, os.W_OK | os.X_OK):
        return
    if os.statvfs(MEMORY_FOLDER).f_flag & os.ST_NOEXEC:  # some tests start programs that they have written
        return
    if shutil.disk_usage(MEMORY_FOLDER).free >= ROOM_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY_FOLDER)


_keep_files_in_memory()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests were left out for want of a browser, of Node, of PgBouncer or of Helm."""
    if javascript.is_left_out(f"test_{javascript.NAMED}"):
        terminalreporter.write_line(f"left out: tests of clients in JavaScript. To run them: {javascript.HOW}")
    if pgbouncer.is_left_out(f"test_{pgbouncer.NAMED}"):
        terminalreporter.write_line(f"left out: tests behind PgBouncer. To run them: {pgbouncer.HOW}")
    if promtool.is_left_out(f"test_{promtool.NAMED}"):
        terminalreporter.write_line(f"left out: tests of Prometheus's rules. To run them: {promtool.HOW}")
    folder = Path(__file__).parent / "browser"
    asked = [Path(one).absolute() for one in terminalreporter.config.args]
    if browser.browser_path() is None and not browser.is_demanded() and {folder, *folder.parents} & {*asked}:
        number = browser.left_out(folder)
        terminalreporter.write_line(f"left out: {number} tests in a browser. To run them: {browser.HOW}")
    folders = [UNIT / "deploy" / "chart", Path(__file__).parent / "integration" / "deploy"]
    if not check_packages.is_there() and not check_packages.is_demanded():
        number = sum(check_packages.left_out(one) for one in folders if {one, *one.parents} & {*asked})
        if number:
            terminalreporter.write_line(f"left out: {number} tests of the chart. To run them: {check_packages.HOW}")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Import the test modules as a service imports its own, and look for garbage as rarely as a service does."""
    with garbage_collector.paused():
        collected = yield
    gc.set_threshold(*garbage_collector.RARELY)
    return collected


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Compile the modules before the processes of tests start, where the whole suite is run by several."""
    if session.config.getoption("numprocesses", None) == PROCESSES and session.config.args == ["tests"]:
        compile_tests()


PROCESSES = 6
"""For tests that wait for servers; each takes a sixth in their order, and then what the others have not begun."""

FEW_FILES = 3
"""A process imports and collects for about a second; so many files of unit tests end sooner in one."""


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return how many processes `-n auto` starts: none for a few files of unit tests or for named tests."""
    places = [place.partition("::") for place in config.args]
    if all(test for _, _, test in places):
        return 0
    paths = [Path(config.invocation_params.dir, path).resolve() for path, _, _ in places]
    if all(path.is_relative_to(PAGES) for path in paths):
        return 0  # they share a platform, which takes longer to start than most pages to be run
    if not all(path.is_relative_to(UNIT) for path in paths):
        return PROCESSES
    few = len(paths) <= FEW_FILES and all(path.is_file() for path in paths)
    return 0 if few else min(PROCESSES, os.cpu_count() or 1)  # unit tests wait for nothing but the processor


def _with(dsn: str, *, user: str | None = None, database: str) -> str:
    """Return *dsn* for another database, and for another user where one is given."""
    parts = urlsplit(dsn)
    host = parts.netloc.rpartition("@")[2]
    login = parts.netloc.rpartition("@")[0] if user is None else f"{quote(user)}:{quote(PASSWORD)}"
    netloc = f"{login}@{host}" if login else host
    return urlunsplit((parts.scheme, netloc, f"/{database}", parts.query, ""))


@pytest.fixture(autouse=True)
def printed_documents(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator["PrintedDocuments | None"]:
    """Validate what commands print in this process; where none of the command line is imported it costs nothing.

    A test that is marked `prints` has to have printed a document of each of the commands that it names.
    """
    promised = {command for mark in request.node.iter_markers("prints") for command in mark.args}
    if not promised and "towpath.cli" not in sys.modules:
        yield None
        return
    from tests.support.cli.printed_documents import watch_printers

    seen = watch_printers(monkeypatch)
    yield seen
    assert not seen.faults, "\n".join(seen.faults)
    assert promised <= seen.commands, f"it printed no document of {sorted(promised - seen.commands)}"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A temporary folder with a short path that every user may traverse, as an embedded Postgres needs it."""
    with temporary_folder() as path:
        yield path


@pytest.fixture(scope="session")
def postgres_dsn() -> Iterator[str]:
    """The session's Postgres as its owner. Tests make databases of their own in it: use `database`."""
    given = os.environ.get("TOWPATH_TEST_DATABASE_URL")
    if given:
        yield given
    elif docker_answers():
        with postgres_container() as dsn:
            yield dsn
    else:
        with temporary_folder() as path:
            server = Postgres(path, durable=False)
            asyncio.run(server.start())
            try:
                yield server.dsn(database="postgres")
            finally:
                asyncio.run(server.stop())


@pytest.fixture(scope="session")
def nats_url() -> Iterator[str]:
    """The session's NATS; streams are shared by all tests of a session: use `nats_server` where that matters."""
    given = os.environ.get("TOWPATH_TEST_NATS_URL")
    if given:
        yield given
    elif docker_answers():
        with nats_container() as address:
            yield address
    else:
        with temporary_folder() as path:
            server = Nats(path)
            asyncio.run(server.start())
            try:
                yield server.url()
            finally:
                asyncio.run(server.stop())


@pytest.fixture
async def nats_server(folder: Path) -> AsyncIterator[Nats]:
    """A NATS server of the test's own, without users; it may be killed (`process.kill()`) and started again."""
    server = Nats(folder / "nats")
    await server.start()
    yield server
    await server.stop()


@pytest.fixture(scope="session")
def template_database(postgres_dsn: str) -> Iterator[str]:
    """The name of a migrated, empty database; never connect to it, or it can't be copied."""
    name = f"towpath_template_{uuid.uuid4().hex[:12]}"
    asyncio.run(_make_template(postgres_dsn, name))
    yield name
    asyncio.run(_run(postgres_dsn, f'DROP DATABASE "{name}" WITH (FORCE)'))


@pytest.fixture
async def database(postgres_dsn: str, template_database: str) -> AsyncIterator[DatabaseUrl]:
    """A fresh, migrated database; called, it gives the address: `database()` as its owner, `database("tas")` as TAS."""
    name = f"towpath_test_{uuid.uuid4().hex[:12]}"
    # By copying files: the default way writes every page to the log too, which takes three times as long.
    await _run(postgres_dsn, f'CREATE DATABASE "{name}" TEMPLATE "{template_database}" STRATEGY FILE_COPY')

    def address(role: str | None = None) -> str:
        return _with(postgres_dsn, user=None if role is None else f"towpath_{role}", database=name)

    yield address
    await _run(postgres_dsn, f'DROP DATABASE "{name}" WITH (FORCE)')


async def _make_template(dsn: str, name: str) -> None:
    await _run(dsn, f'CREATE DATABASE "{name}"')
    await migrate(_with(dsn, database=name))
    async with _connected(dsn) as connection:
        await connection.execute("SELECT pg_advisory_lock($1)", LOCK_KEY)  # roles belong to all sessions of the server
        for role in ROLES:
            await connection.execute(f"ALTER ROLE towpath_{role} PASSWORD '{PASSWORD}'")


async def _run(dsn: str, statement: str) -> None:
    async with _connected(dsn) as connection:
        await connection.execute(statement)


@contextlib.asynccontextmanager
async def _connected(dsn: str) -> "AsyncIterator[asyncpg.Connection[asyncpg.Record]]":
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


PAGES = Path(__file__).parent / "e2e" / "pages"
SLOW = (
    "attacks/test_attacks.py",
    "e2e/faults/test_kills.py",
    "e2e/faults/test_crash_points.py",
    "simulation/test_worlds.py",
    "browser/test_console.py",
    "e2e/faults/test_standstill.py",
    "e2e/pages/test_pages_of_agents.py",
    "e2e/faults/test_servers.py",
    "integration/embedded/test_whole_platform.py",
    "e2e/test_erased_runs.py",
    "e2e/console/test_console.py",
    "integration/fabric/test_broker_owner.py",
    "e2e/test_objectives.py",
    "e2e/faults/test_messages.py",
    "e2e/faults/test_chaos.py",
    "e2e/faults/test_versions.py",
    "e2e/faults/test_effect_classes.py",
    "e2e/faults/test_mutants.py",
    "e2e/faults/test_replicas.py",
    "integration/decider/test_provider_limits.py",
    "integration/embedded/test_platform.py",
    "integration/worker/test_calls.py",
    "integration/tas/test_faults.py",
    "e2e/faults/test_lost_deciders.py",
    "e2e/cli/test_cli_platform.py",
    "integration/decider/test_service.py",
    "simulation/test_engine_worlds.py",
    "e2e/test_demo.py",
    "e2e/test_goals.py",
    "e2e/test_readme.py",
    "integration/embedded/test_up.py",
    "e2e/test_deployed.py",
    "integration/worker/test_slow_calls.py",
    "e2e/test_gateway_platform.py",
    "e2e/test_base_agents.py",
)
"""Modules of long tests, the longest first: one that is begun last keeps a single process busy after all others."""

TOGETHER = {
    "e2e/cli/test_cli_tree.py": "e2e/cli/test_cli_platform.py",
    **{f"e2e/pages/{path.name}": "e2e/pages/test_pages_of_agents.py" for path in PAGES.glob("test_*.py")},
}
"""Modules that share what the other one has started, and so run in the same process."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let every process begin with its share of the long tests; modules stay together and share their fixtures."""
    if left_out := [one for one in items if any(part.is_left_out(one.name) for part in MAY_LACK)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    places: dict[str, list[pytest.Item]] = {place: [] for place in SLOW}
    for item in items:
        path = item.nodeid.partition("::")[0].removeprefix("tests/")
        path = TOGETHER.get(path, path)
        if path in places:
            places[path].append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(PROCESSES)]
    for number, place in enumerate(SLOW):
        turn = number % (2 * PROCESSES)
        shares[min(turn, 2 * PROCESSES - 1 - turn)].extend(places[place])
    begun = {id(item) for share in shares for item in share}
    rest = [item for item in items if id(item) not in begun]
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        room = max(0, len(items) * (number + 1) // PROCESSES - len(ordered) - len(share))
        ordered += [*share, *(rest if number == PROCESSES - 1 else rest[:room])]
        rest = rest[room:]
    items[:] = ordered
