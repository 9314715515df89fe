"""Two tools over a shop's week: what was sold, and what is left."""

from towpath import ToolError, tool

SOLD = {"lamp": 41, "desk": 6, "chair": 17}
LEFT = {"lamp": 3, "desk": 12, "chair": 8}
WEEKS = 53


@tool(name="shop.sales", toolset="week", effect_class="pure", summary="Sales of week {week}")
def sales(week: int) -> dict[str, int]:
    """Return how many of each item were sold in a week.

    Args:
        week: The week of the year.
    """
    if not 1 <= week <= WEEKS:
        raise ToolError("week_unknown", f"There is no week {week} in a year.")
    return SOLD


@tool(name="shop.stock", toolset="week", effect_class="pure", summary="What is left")
def stock() -> dict[str, int]:
    """Return how many of each item are left."""
    return LEFT
