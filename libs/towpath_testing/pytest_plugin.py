"""pytest finds this by its entry point: the fixtures of `towpath.testing`, and why runs of a harness ended as they did.

Every run of pytest loads it where Towpath is installed, so nothing of the platform is imported before a test needs it.
pytest shows the two values that were compared, `'failed' == 'completed'`, and not the run that one of them is of: what
the runs of a failing test came to is shown beside them. An error that says what the test did wrong is shown where the
test did it: what the harness and asyncio called meanwhile is left out, unless --full-trace asks for it.
"""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from towpath_testing.sync import SyncHarness

TOLD_CHARS = 480
"""Of all results together: pytest cuts what it says of two values at 640."""


@pytest.fixture
def towpath_harness() -> "Iterator[Callable[..., SyncHarness]]":
    """Return `harness` for tests without asyncio: what it opens is closed when the test ends."""
    from towpath_fabric.garbage_collector import without_collections  # noqa: PLC0415 - as the head says

    with without_collections():
        from towpath_testing.harness import harness  # noqa: PLC0415 - as the head says

    with ExitStack() as stack:

        def opened(*arguments: Any, **options: Any) -> "SyncHarness":
            return stack.enter_context(harness(*arguments, **options))

        yield opened


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Forget the results of the tests before."""
    runs = sys.modules.get("towpath_testing.runs")
    if runs is not None:
        runs.RETURNED.clear()


@pytest.hookimpl(wrapper=True)
def pytest_assertrepr_compare() -> Generator[None, list[list[str]], list[list[str]]]:
    """Say behind the first line of what pytest says of two values what the runs of the test came to."""
    found = yield
    return [[*lines[:1], *_told_runs(), *lines[1:]] for lines in found if lines]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say below a failure what the runs came to, where what is said of the failure does not say so."""
    if call.excinfo is not None and _is_ours(type(call.excinfo.value).__module__) and not item.config.option.fulltrace:
        _end_in_test(call.excinfo.value)
    report = yield
    if call.excinfo is not None and report.failed:
        told = _told_runs()
        if told and not all(line in report.longreprtext for line in told):
            report.sections.append(("Runs of the harness", "\n".join(told)))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Say of a test in a project what it imports that there is not, and what there is."""
    report = yield
    call = getattr(report, "call", None)
    error = call.excinfo.value if report.failed and call is not None and call.excinfo is not None else None
    cause = error.__cause__ if isinstance(error, collector.CollectError) else None
    if isinstance(cause, ImportError) and (collector.config.rootpath / "towpath.yaml").is_file():
        from towpath.module_sources import describe_import_fault  # noqa: PLC0415 - as the head says

        report.longrepr = describe_import_fault(collector.nodeid, cause)
    return report


def _end_in_test(error: BaseException) -> None:
    """Leave out what is below the last frame that is not the platform's: *error* says what is to be known of it."""
    last = entry = error.__traceback__
    while entry is not None:
        if not _is_ours(str(entry.tb_frame.f_globals.get("__name__"))):
            last = entry
        entry = entry.tb_next
    if last is not None:
        last.tb_next = None


def _is_ours(module: str) -> bool:
    """Return whether *module* is the platform's, or what runs its coroutines and enters its contexts."""
    package = module.partition(".")[0]
    return package.startswith("towpath") or package in {"asyncio", "contextlib"}


def _told_runs() -> list[str]:
    """Return a line about each result that the test was given; none where there was no harness."""
    runs = sys.modules.get("towpath_testing.runs")
    found = () if runs is None else tuple(runs.RETURNED)
    return [one.in_one_line(TOLD_CHARS // len(found)) for one in found]
