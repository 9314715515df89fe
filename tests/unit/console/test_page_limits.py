"""How many rows a page shows: at its limit all of them, and beyond it that there are more, and how to see them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from tests.support.answered_api import AnsweredApi, asked_of
from tests.support.console.recorded_api import drawn
from tests.unit.console.approvals.gates import a_gate
from tests.unit.console.policy.test_policy import policy_of, rule, tool
from tests.unit.console.test_costs import balance
from tests.unit.console.test_renderer import run_named
from tests.unit.console.test_settings import KEY

from towpath_console.page import PageBuilder
from towpath_console.pages import settings
from towpath_console.pages.costs import costs
from towpath_console.pages.networks import networks
from towpath_console.pages.overview import overview
from towpath_console.pages.policy.policy_rules import rules
from towpath_console.pages.policy.policy_versions import versions
from towpath_console.pages.runs.run_list import runs
from towpath_console.pages.tools import tools

AT = "2026-11-26T14:00:00Z"
Json = dict[str, Any]


class Listing(NamedTuple):
    """A page, the rows that it shows at most, one row of the API, what each is drawn with, and what tells of more."""

    build: PageBuilder
    shown: int
    path: str
    member: str
    row: Callable[[int], Json]
    mark: str
    more: str
    cursor: str = ""
    others: Mapping[str, Any] = {}  # nothing changes it


def run_numbered(number: int) -> Json:
    return {**run_named("calm"), "run_id": f"01a21826-750f-7b51-adac-{number:012x}"}


def gate_numbered(number: int) -> Json:
    return a_gate() | {"gate_id": f"b8176244-5c21-5539-9bae-{number:012x}"}


def version_numbered(number: int) -> Json:
    return {"version": number, "applied_at": AT, "applied_by": "mia", "note": "", "rules": 1, "source": ""}


def network_numbered(number: int) -> Json:
    return {"name": f"n{number}", "version": 1, "published_at": AT, "published_by": "mia", "digest": "sha256:1"}


def account_numbered(number: int) -> Json:
    return {
        "scope": "caller", "key": f"ann{number}", "units": [balance(1, 2)], "soft": 0.8, "on_soft": "gate",
        "set_by": "ben", "set_at": AT,
    }  # fmt: skip


def tool_numbered(number: int) -> Json:
    return tool(f"t{number}") | {"description": "", "discovered": False}


NO_PROPOSALS: Json = {"held": {}, "proposals": []}
AROUND_OVERVIEW: Json = {
    "/v1/statistics": {}, "/v1/networks": {"networks": []}, "/v1/budgets": {"accounts": []}, "/v1/costs": {},
    "/v1/dead-letters": {}, "/v1/metrics/samples": {},
}  # fmt: skip

LISTINGS = {
    "runs": Listing(
        runs, 50, "/v1/runs", "runs", run_numbered, 'id="run-', "Older runs</a>", "next_before",
        {"/v1/networks": {"networks": []}},
    ),
    "keys": Listing(
        settings.keys, 100, "/v1/keys", "keys", lambda n: KEY | {"prefix": f"k{n}"}, "<code>twp_k", "More keys</a>",
        "next_after",
    ),
    "versions of the policy": Listing(
        versions, 50, "/v1/policy/versions", "versions", version_numbered, 'href="/policy/versions/',
        "Older versions</a>", "next_before", {},
    ),
    "rules": Listing(
        rules, 100, "/v1/policy", "rules", lambda n: rule(f"r{n}"), '<th scope="row">r', "from=100",
        others={"": policy_of()},
    ),
    "networks": Listing(
        networks, 200, "/v1/networks", "networks", network_numbered, 'href="/networks/n', "1 more: name a part",
    ),
    "tools": Listing(
        tools, 200, "/v1/tools", "tools", tool_numbered, 'href="/tools/t', "1 more: filter them",
        others={"": NO_PROPOSALS, "/v1/statistics": {}, "/v1/switches": {"switches": []}},
    ),
    "budgets": Listing(
        costs, 100, "/v1/budgets", "accounts", account_numbered, 'class="card account"', "GET /v1/budgets?limit=",
        others={"/v1/costs": {"by": "network", "since": AT[:10], "names": [], "days": [], "left_out": 0,
                              "unpriced_models": []}},
    ),
    "runs of the first page": Listing(
        overview, 8, "/v1/runs", "runs", run_numbered, 'id="run-', 'href="/runs">All runs', "next_before",
        {"/v1/gates": {"gates": []}, **AROUND_OVERVIEW},
    ),
    "approvals of the first page": Listing(
        overview, 3, "/v1/gates", "gates", gate_numbered, 'class="card gate', 'href="/approvals">All 4', "next_after",
        {"/v1/runs": {"runs": []}, **AROUND_OVERVIEW},
    ),
}  # fmt: skip


async def page_of(listing: Listing, number: int) -> str:
    """Return *listing* drawn of an API that has so many rows, and answers as many of them as it is asked for."""
    rows = [listing.row(one) for one in range(1, number + 1)]

    def answer(sent: Mapping[str, Any]) -> Json:
        some = rows[: int(sent.get("limit", number))]
        more = {listing.cursor: "7" if len(some) < number else None} if listing.cursor else {}
        return {"current": 1, **listing.others.get("", {}), listing.member: some, **more}

    return drawn(await listing.build(asked_of(AnsweredApi({**listing.others, listing.path: answer}))))


@pytest.mark.parametrize("name", LISTINGS)
async def test_a_page_shows_as_many_rows_as_it_may_and_says_that_there_are_more(name: str) -> None:
    listing = LISTINGS[name]
    whole, cut = await page_of(listing, listing.shown), await page_of(listing, listing.shown + 1)
    assert whole.count(listing.mark) == cut.count(listing.mark) == listing.shown
    assert listing.more in cut
    assert listing.more not in whole or name == "runs of the first page", "which always leads to all runs"
