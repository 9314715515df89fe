"""A `reconcilable` tool has a probe that fits it, or is refused where it is written."""

from typing import Any

import pytest

from towpath import DeclarationError, DidNotHappen, Happened, ToolContext, Unclear, tool


async def shipped(order_id: str) -> Happened | DidNotHappen | Unclear:
    return Happened({"order_id": order_id})


def strange(order: str) -> DidNotHappen:
    return DidNotHappen()


def declared(probe: Any, effect_class: str = "reconcilable") -> Any:
    @tool(effect_class=effect_class, probe=probe)
    async def ship(order_id: str, weight: int, ctx: ToolContext) -> str:
        """Ship an order."""
        return f"{order_id} {weight} {ctx.attempt}"

    return ship


def test_a_tool_with_a_probe_says_so_in_its_spec() -> None:
    ship = declared(shipped)
    assert ship.spec.has_probe and ship.probe is not None
    assert ship.probe.bind({"order_id": "A", "weight": 1, "ctx": None}, ToolContext()) == {"order_id": "A"}


def test_a_probe_gets_the_context_under_its_own_name() -> None:
    def probe(context: ToolContext, order_id: str) -> DidNotHappen:
        return DidNotHappen()

    context = ToolContext(attempt=2)
    bound = declared(probe).probe.bind({"order_id": "A", "weight": 1}, context)
    assert bound == {"order_id": "A", "context": context}


@pytest.mark.parametrize(
    ("probe", "effect_class", "expected"),
    [
        (None, "reconcilable", "needs probe="),
        (shipped, "irreversible", "asked for reconcilable tools only"),
        (shipped, "pure", "asked for reconcilable tools only"),
        (strange, "reconcilable", "takes order, which the tool does not"),
        ("shipped", "reconcilable", "a probe is a plain function"),
    ],
)
def test_what_can_not_be_reconciled_is_refused_where_it_is_written(
    probe: Any, effect_class: str, expected: str
) -> None:
    with pytest.raises(DeclarationError, match=expected) as refused:
        declared(probe, effect_class)
    assert "ship" in str(refused.value)
