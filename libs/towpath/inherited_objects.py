"""Connections, loops and streams of the parent of a fork, kept here: what is closed or collected ends there too."""

_KEPT: list[object] = []


def keep_inherited(found: object) -> None:
    """Keep what the parent of this process had until the process ends; nothing is kept of None."""
    if found is not None:
        _KEPT.append(found)
