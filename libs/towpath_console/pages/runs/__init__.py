"""Pages of runs: the list, one run and its views, its steps, two runs side by side, and what can be done with them."""

from towpath_console.page import ActionRoute, DownloadRoute, PageRoute
from towpath_console.pages.runs import bulk_runs, comparison, run, run_actions, run_list, run_step, run_tabs

PAGES: tuple[PageRoute, ...] = (
    *run_list.PAGES,
    *bulk_runs.PAGES,
    *comparison.PAGES,
    *run.PAGES,
    *run_tabs.PAGES,
    *run_step.PAGES,
)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (
    *run_list.ACTIONS,
    *bulk_runs.ACTIONS,
    *run_actions.ACTIONS,
)

DOWNLOADS: tuple[DownloadRoute, ...] = (*bulk_runs.DOWNLOADS, *run_tabs.DOWNLOADS)
