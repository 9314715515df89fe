"""Pages of what waits for a person: the inbox, one gate, its edit, and several calls of one rule at once."""

from towpath_console.page import ActionRoute, PageRoute
from towpath_console.pages.approvals import approval_batches, approval_edits, inbox

PAGES: tuple[PageRoute, ...] = (
    *approval_batches.PAGES,
    *approval_edits.PAGES,
    *inbox.PAGES,
)
"""The first whose path matches is shown."""

ACTIONS: tuple[ActionRoute, ...] = (
    *approval_batches.ACTIONS,
    *approval_edits.ACTIONS,
    *inbox.ACTIONS,
)
