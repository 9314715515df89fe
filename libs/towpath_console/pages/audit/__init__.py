"""The audit: what was decided and done, the proof of each entry, and files that are checked without the platform."""

from towpath_console.page import ActionRoute, DownloadRoute, PageRoute
from towpath_console.pages.audit import audit_entry, audit_erasures, audit_files, audit_search, audit_verify

SECTION = "/audit"

PAGES = (
    PageRoute("/audit", audit_search.search, SECTION),
    PageRoute("/audit/checkpoint", audit_files.checkpoint, SECTION),
    PageRoute("/audit/verify", audit_verify.verify_form, SECTION),
    PageRoute("/audit/export", audit_files.export_form, SECTION),
    PageRoute("/audit/erasures", audit_erasures.erasures, SECTION),
    PageRoute("/audit/erasures/{erasure_id}", audit_erasures.erasure, SECTION),
    PageRoute("/audit/entries/{entry_id}", audit_entry.entry, SECTION),
)
ACTIONS = (
    ActionRoute("/audit/verify", audit_verify.verify_now, "audit:read", SECTION),
    ActionRoute("/audit/erasures", audit_erasures.request_erasure, "audit:erase", SECTION),
    ActionRoute("/audit/erasures/{erasure_id}/{verb}", audit_erasures.decide, "audit:erase", SECTION),
)
DOWNLOADS = (
    DownloadRoute("/audit/checkpoint/{file}", audit_files.checkpoint_file),
    DownloadRoute("/audit/export/towpath-audit.jsonl", audit_files.export),
    DownloadRoute("/audit/entries/{entry_id}/proof", audit_entry.proof_file),
)
