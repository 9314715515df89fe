"""Every page and every action of the console."""

from towpath_console.page import ActionRoute, PageRoute
from towpath_console.pages import approvals, overview, run, runs

PAGES: tuple[PageRoute, ...] = (*overview.PAGES, *runs.PAGES, *run.PAGES, *approvals.PAGES)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (*overview.ACTIONS, *run.ACTIONS, *approvals.ACTIONS)
