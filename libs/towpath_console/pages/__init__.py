"""Every page, every action and every file of the console."""

from towpath_console.page import ActionRoute, DownloadRoute, PageRoute
from towpath_console.pages import (
    approval_batches,
    approval_edits,
    approvals,
    comparison,
    network,
    networks,
    overview,
    run,
    run_actions,
    run_step,
    run_tabs,
    runs,
    tool,
    tool_trial,
    tools,
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
    *network.PAGES,
    *networks.PAGES,
    *tool.PAGES,
    *tools.PAGES,
)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (
    *overview.ACTIONS,
    *runs.ACTIONS,
    *run_actions.ACTIONS,
    *approval_batches.ACTIONS,
    *approval_edits.ACTIONS,
    *approvals.ACTIONS,
    *network.ACTIONS,
    *networks.ACTIONS,
    *tool.ACTIONS,
    *tool_trial.ACTIONS,
)

DOWNLOADS: tuple[DownloadRoute, ...] = (*run_tabs.DOWNLOADS,)
