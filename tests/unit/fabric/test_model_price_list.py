"""The operator's own prices: which holds for a model, what a use costs, and what can't be read."""

from pathlib import Path

import pytest
from tests.docs_site.taken_blocks import taken

from towpath_contracts.decisions.request import Cost, Usage
from towpath_fabric.prices.model_price_list import SOURCE, ModelPriceList

USED = Usage(input_tokens=2_000, output_tokens=1_000, total_tokens=3_500, model_calls=1)


@pytest.fixture
def prices(tmp_path: Path) -> ModelPriceList:
    file = tmp_path / "prices.yaml"
    file.write_text(
        '"openai:our-finetune": {input_usd: 3, output_usd: 12}\n'
        '"openai:*": {input_usd: 100, output_usd: 100}\n"agent:free": {input_usd: 0, output_usd: 0}\n'
    )
    return ModelPriceList(file)


def test_a_use_costs_what_the_first_pattern_that_fits_says(prices: ModelPriceList) -> None:
    """Tokens that a provider counts in the sum alone, such as thoughts, were written."""
    cost = prices.cost_of("openai:our-finetune", USED)
    assert cost == Cost(usd=(2_000 * 3 + 1_500 * 12) / 10**6, price_known=True, price_source=SOURCE)
    assert prices.cost_of("openai:other", USED) == Cost(usd=0.35, price_known=True, price_source=SOURCE)
    assert prices.cost_of("agent:free", USED) == Cost(usd=0.0, price_known=True, price_source=SOURCE)


def test_the_file_of_the_page_has_the_prices_that_it_says(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text(taken('docs/budgets.md: "openai:our-finetune"').text, "utf-8")
    cost = ModelPriceList(file).cost_of("openai:our-finetune", USED)
    assert cost == Cost(usd=(2_000 * 3 + 1_500 * 12) / 10**6, price_known=True, price_source=SOURCE)
    assert ModelPriceList(file).cost_of("agent:any", USED) == Cost(usd=0.0, price_known=True, price_source=SOURCE)


def test_nothing_is_priced_that_the_file_does_not_name_or_nobody_counted(prices: ModelPriceList) -> None:
    assert prices.cost_of("gemini:gemini-2.5-flash", USED) is None
    assert prices.cost_of("openai:our-finetune", Usage(model_calls=1)) is None
    assert ModelPriceList(None).cost_of("openai:our-finetune", USED) is None


def test_a_price_below_zero_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text('"openai:x": {input_usd: -1, output_usd: 2}\n')
    with pytest.raises(ValueError, match="input_usd"):
        ModelPriceList(file)
