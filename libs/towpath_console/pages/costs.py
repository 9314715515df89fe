"""What is spent: accounts with their limits, what the newest runs cost by network and caller, and setting limits."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.drawings.burn import burn_bar
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import chosen, together

REFRESH_S = 3.0
ACCOUNTS = 100
RUNS = 200
"""Of the newest runs: their costs are added up on the page, since nothing keeps sums for longer."""

UNPRICED_SHOWN = 8
UNITS = {"usd_micros": "dollars", "tokens": "tokens", "model_calls": "model calls", "tool_calls": "tool calls"}
WHOLE = ("tokens", "model_calls", "tool_calls")
PARTS = ("network", "caller")


async def costs(asked: Asked) -> Page:
    """Make the page: budgets first, then where the money went."""
    wanted = chosen(asked.query, "caller", "before")
    found = await together(
        budgets=asked.api.get("/v1/budgets", limit=ACCOUNTS + 1, caller=wanted.get("caller")),
        runs=asked.api.get("/v1/runs", limit=RUNS, before=wanted.get("before")),
    )
    runs = found["runs"]["runs"]
    if wanted.get("caller"):
        runs = [run for run in runs if run["caller"] == wanted["caller"]]
    ended = [run for run in runs if run.get("cost")]
    view = {
        "accounts": [_account(account) for account in found["budgets"]["accounts"][:ACCOUNTS]],
        "more_accounts": len(found["budgets"]["accounts"]) > ACCOUNTS,
        "by": {part: spent_by(part, ended) for part in PARTS},
        "unpriced": [run for run in ended if not run["cost"]["price_known"]][:UNPRICED_SHOWN],
        "unpriced_count": sum(not run["cost"]["price_known"] for run in ended),
        "total": sum(run["cost"]["usd"] or 0.0 for run in ended),
        "tokens": sum((run.get("usage") or {}).get("total_tokens", 0) for run in ended),
        "ended": len(ended),
        "running": len(runs) - len(ended),
        "oldest": runs[-1]["created_at"] if runs else None,
        "next_before": found["runs"].get("next_before") if len(found["runs"]["runs"]) == RUNS else None,
    }
    data = {"budgets": found["budgets"], "spent": view["by"], "runs_counted": len(ended)}
    return Page("Costs", "costs.html", data, view, None if wanted.get("before") else REFRESH_S)


def spent_by(part: str, runs: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what *runs* cost by *part* of them, the dearest first; what has no known price is counted apart."""
    sums: dict[str, dict[str, Any]] = defaultdict(
        lambda: {"usd": 0.0, "runs": 0, "unpriced": 0, "tokens": 0, "model_calls": 0}
    )
    for run in runs:
        one, usage = sums[run[part]], run.get("usage") or {}
        one["runs"] += 1
        one["usd"] += run["cost"]["usd"] or 0.0
        one["unpriced"] += not run["cost"]["price_known"]
        one["tokens"] += usage.get("total_tokens", 0)
        one["model_calls"] += usage.get("model_calls", 0)
    dearest = max((one["usd"] for one in sums.values()), default=0.0)
    rows = [
        {"name": name, "share": round(100 * one["usd"] / dearest, 2) if dearest else 0.0, **one}
        for name, one in sums.items()
    ]
    return sorted(rows, key=lambda row: (-row["usd"], -row["tokens"], row["name"]))


def _account(account: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a page shows of an account: whose it is, and the bar of each unit that is limited."""
    kind, name = account["scope"], account["key"]
    if kind == "day":
        _, kind, name = account["key"].split("/", 2)
    bars = [
        {**one, "unit": UNITS[one["unit"]], "money": one["unit"] == "usd_micros", "bar": bar}
        for one in account["units"]
        if (bar := burn_bar(one, account["soft"])) is not None
    ]
    return {**account, "kind": kind, "name": name, "per_day": account["scope"] == "day", "bars": bars}


async def set_budget(asked: Asked, form: Mapping[str, str]) -> Done:
    """Limit a caller or the project, or lift a limit."""
    body: dict[str, Any] = {
        "kind": form.get("kind", ""),
        "name": form.get("name") or None,
        "per_day": form.get("per_day") == "yes",
        "reason": form.get("reason", ""),
    }
    if form.get("lift") != "yes":
        body["budget"] = _budget(form)
    await asked.api.post("/v1/budgets", body)
    return Done("/costs", "The limit is lifted." if form.get("lift") == "yes" else "The budget is set.")


def _budget(form: Mapping[str, str]) -> dict[str, Any]:
    """Return the budget of a form; raises ApiRefusalError naming every field that is no number."""
    budget: dict[str, Any] = {"on_soft": form.get("on_soft") or "warn"}
    wrong = []
    for name in ("usd", *WHOLE, "soft"):
        given = form.get(name, "").strip()
        if not given:
            continue
        try:
            number = float(given) if name in ("usd", "soft") else int(given)
        except ValueError:
            wrong.append({"pointer": f"/{name}", "detail": f"{given[:40]!r} is no number"})
            continue
        budget[name] = number / 100 if name == "soft" else number
    if wrong:
        detail = "a limit is a number: dollars may have a point, the others are whole"
        raise ApiRefusalError(
            422,
            {
                "code": "request_invalid",
                "title": "The budget is not valid",
                "detail": detail,
                "errors": wrong,
                "remedy": "Go back, correct the fields, and send the form again.",
            },
        )
    return budget


PAGES = (PageRoute("/costs", costs, "/costs"),)
ACTIONS = (ActionRoute("/costs/budgets", set_budget),)
