"""Every page, every action and every file of the console."""

from towpath_console.page import ActionRoute, DownloadRoute, PageRoute
from towpath_console.pages import (
    approvals,
    audit,
    costs,
    docs,
    metrics_view,
    network,
    networks,
    overview,
    policy,
    providers,
    queues,
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
    *approvals.PAGES,
    *networks.PAGES,
    *network.PAGES,
    *tools.PAGES,
    *tool.PAGES,
    *policy.PAGES,
    *audit.PAGES,
    *workers.PAGES,
    *queues.PAGES,
    *costs.PAGES,
    *metrics_view.PAGES,
    *settings.PAGES,
    *providers.PAGES,
    *docs.PAGES,
)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (
    *overview.ACTIONS,
    *runs.ACTIONS,
    *approvals.ACTIONS,
    *networks.ACTIONS,
    *network.ACTIONS,
    *tool.ACTIONS,
    *tool_trial.ACTIONS,
    *policy.ACTIONS,
    *audit.ACTIONS,
    *workers.ACTIONS,
    *queues.ACTIONS,
    *costs.ACTIONS,
    *settings.ACTIONS,
    *providers.ACTIONS,
)

DOWNLOADS: tuple[DownloadRoute, ...] = (
    *runs.DOWNLOADS,
    *audit.DOWNLOADS,
)
