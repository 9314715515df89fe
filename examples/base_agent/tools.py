"""The lock's tools: a look at the water, and the gate."""

from towpath import tool


@tool(toolset="lock", effect_class="pure", name="lock.levels")
def levels() -> dict[str, int]:
    """Measure the water above and below the gate, in centimetres."""
    return {"above_cm": 212, "below_cm": 210}


@tool(toolset="lock", effect_class="idempotent", name="lock.open")
def open_gate(boat: str) -> dict[str, str]:
    """Open the gate for a boat.

    Args:
        boat: Its name.
    """
    return {"gate": "open", "boat": boat}
