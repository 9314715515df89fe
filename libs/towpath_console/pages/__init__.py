"""Every page, every action and every file of the console."""

from towpath_console.page import ActionRoute, DownloadRoute, PageRoute
from towpath_console.pages import (
    approval_batches,
    approval_edits,
    approvals,
    comparison,
    overview,
    run,
    run_actions,
    run_step,
    run_tabs,
    runs,
)

PAGES: tuple[PageRoute, ...] = (
    *overview.PAGES,
    *runs.PAGES,
    *comparison.PAGES,
    *run.PAGES,
    *run_tabs.PAGES,
    *run_step.PAGES,
    *approval_batches.PAGES,
    *approval_edits.PAGES,
    *approvals.PAGES,
)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (
    *overview.ACTIONS,
    *runs.ACTIONS,
    *run_actions.ACTIONS,
    *approval_batches.ACTIONS,
    *approval_edits.ACTIONS,
    *approvals.ACTIONS,
)

DOWNLOADS: tuple[DownloadRoute, ...] = (*run_tabs.DOWNLOADS,)
