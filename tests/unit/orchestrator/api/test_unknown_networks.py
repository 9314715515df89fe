"""Who asks for a network that there is not is told which was meant, or which there are."""

from typing import Any

import pytest

from towpath_contracts.problems.registry import ProblemError
from towpath_orchestrator.app.api.network_registry import NetworkRegistry


class PublishedNames:
    """A pool whose project has networks of these names."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    async def fetchrow(self, *_asked: Any) -> None:
        return None

    async def fetch(self, *_asked: Any) -> list[dict[str, Any]]:
        return [{"name": name} for name in self._names]


@pytest.mark.parametrize(
    ("published", "told"),
    [
        (["rentals", "support"], "the project shop has no network 'gpt-4o'; there are rentals, support"),
        (["rentals"], "the project shop has no network 'gpt-4o'; there is rentals"),
        (list("abcdefg"), "the project shop has no network 'gpt-4o'; there are a, b, c, d, e and 2 more"),
        (["gpt-4", "rentals"], "the project shop has no network 'gpt-4o'; did you mean 'gpt-4'?"),
        ([], "the project shop has no network 'gpt-4o', and no other either: none is published yet"),
    ],
)
async def test_a_name_of_a_model_is_answered_with_the_networks_that_there_are(published: list[str], told: str) -> None:
    registry = NetworkRegistry(PublishedNames(published), *(None, None, None))  # type: ignore[arg-type]
    with pytest.raises(ProblemError) as caught:
        await registry.find("shop", "gpt-4o", None)
    assert (caught.value.problem.code, caught.value.problem.detail) == ("network_not_found", told)
