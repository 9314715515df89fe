"""Which paths are pages of the console, so that a server knows before it loads any of it."""

from typing import NamedTuple


class Section(NamedTuple):
    """One entry of the menu: where it is, what it is called, its icon, and the scope that its pages need."""

    path: str
    title: str
    icon: str
    scope: str


SECTIONS = (
    Section("/", "Overview", "layout-dashboard", "runs:read"),
    Section("/runs", "Runs", "list-tree", "runs:read"),
    Section("/approvals", "Approvals", "shield-check", "gates:read"),
    Section("/networks", "Networks", "network", "networks:read"),
    Section("/tools", "Tools", "wrench", "policy:read"),
    Section("/policy", "Policy", "scale", "policy:read"),
    Section("/audit", "Audit", "scroll-text", "audit:read"),
    Section("/workers", "Workers", "cpu", "policy:read"),
    Section("/queues", "Queues", "inbox", "runs:operate"),
    Section("/costs", "Costs", "wallet", "runs:read"),
    Section("/settings", "Settings", "settings", "runs:read"),
    Section("/docs", "Docs", "book-open", "runs:read"),
)
"""In the order of the menu."""

ASSETS = "/console/assets/"
LIVE = "/console/live"

_FIRST = frozenset(section.path.split("/")[1] for section in SECTIONS) | {"console", "asyncapi", "metrics-view"}


def is_console(path: str) -> bool:
    """Return whether *path* is one of the console's."""
    return path.split("/", 2)[1].removesuffix(".json") in _FIRST if path.startswith("/") else False
