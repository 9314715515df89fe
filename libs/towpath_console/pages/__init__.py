"""Every page, every action and every file of the console."""

from towpath_console.page import ActionRoute, DownloadRoute, PageRoute
from towpath_console.pages import approvals, comparison, overview, run, run_actions, run_step, run_tabs, runs

PAGES: tuple[PageRoute, ...] = (
    *overview.PAGES,
    *runs.PAGES,
    *comparison.PAGES,
    *run.PAGES,
    *run_tabs.PAGES,
    *run_step.PAGES,
    *approvals.PAGES,
)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (*overview.ACTIONS, *runs.ACTIONS, *run_actions.ACTIONS, *approvals.ACTIONS)

DOWNLOADS: tuple[DownloadRoute, ...] = (*run_tabs.DOWNLOADS,)
