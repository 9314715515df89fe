"""Texts without what Postgres can't store."""

from towpath_contracts.canonical import canonical_json


def storable(text: str) -> str:
    """Return *text* as a Postgres text column takes it: NUL, which it can't hold, becomes U+FFFD."""
    return text.replace("\x00", "\ufffd")


def storable_json(labels: dict[str, str]) -> str:
    """Write labels as jsonb takes them."""
    return canonical_json({storable(name): storable(value) for name, value in labels.items()})
