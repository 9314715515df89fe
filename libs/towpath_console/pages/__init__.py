"""Every page, every action and every file of the console."""

from towpath_console.page import ActionRoute, DownloadRoute, PageRoute
from towpath_console.pages import (
    approval_batches,
    approval_edits,
    approvals,
    comparison,
    costs,
    docs,
    network,
    networks,
    overview,
    queues,
    run,
    run_actions,
    run_step,
    run_tabs,
    runs,
    settings,
    tool,
    tool_trial,
    tools,
    workers,
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
    *costs.PAGES,
    *docs.PAGES,
    *network.PAGES,
    *networks.PAGES,
    *queues.PAGES,
    *settings.PAGES,
    *tool.PAGES,
    *tools.PAGES,
    *workers.PAGES,
)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (
    *overview.ACTIONS,
    *runs.ACTIONS,
    *run_actions.ACTIONS,
    *approval_batches.ACTIONS,
    *approval_edits.ACTIONS,
    *approvals.ACTIONS,
    *costs.ACTIONS,
    *network.ACTIONS,
    *networks.ACTIONS,
    *queues.ACTIONS,
    *settings.ACTIONS,
    *tool.ACTIONS,
    *tool_trial.ACTIONS,
)

DOWNLOADS: tuple[DownloadRoute, ...] = (*run_tabs.DOWNLOADS,)
