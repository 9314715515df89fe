"""What is spent: accounts with their limits, what models cost by parts of the project and by day, setting limits."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Any

from towpath_console.api import ApiRefusalError
from towpath_console.drawings.bars import bar_chart
from towpath_console.drawings.burn import burn_bar
from towpath_console.page import ActionRoute, Asked, Done, Page, PageRoute
from towpath_console.pages.shared import chosen, together

REFRESH_S = 3.0
ACCOUNTS = 100
UNITS = {"usd_micros": "dollars", "tokens": "tokens", "model_calls": "model calls", "tool_calls": "tool calls"}
WHOLE = ("tokens", "model_calls", "tool_calls")
PARTS = ("network", "agent", "model", "label", "caller")
TIMES = (("1d", "today"), ("7d", "7 days"), ("30d", "30 days"), ("90d", "90 days"))


async def costs(asked: Asked) -> Page:
    """Make the page: budgets first, then where the money went."""
    wanted = chosen(asked.query, "caller", "since")
    by = asked.query.get("by") if asked.query.get("by") in PARTS else PARTS[0]
    since = wanted.get("since") or "7d"
    found = await together(
        budgets=asked.api.get("/v1/budgets", limit=ACCOUNTS + 1, caller=wanted.get("caller")),
        costs=asked.api.get("/v1/costs", by=by, since=since),
    )
    report = found["costs"]
    days = _each_day(report["days"], report["since"])
    view = {
        "accounts": [_account(account) for account in found["budgets"]["accounts"][:ACCOUNTS]],
        "more_accounts": len(found["budgets"]["accounts"]) > ACCOUNTS,
        "by": by,
        "all_parts": PARTS,
        "since": since,
        "times": TIMES,
        "rows": with_shares(report["names"]),
        "left_out": report["left_out"],
        "unpriced_models": report["unpriced_models"],
        "total": {
            name: sum(day[name] for day in report["days"])
            for name in ("usd", "tokens", "model_calls", "runs", "unpriced")
        },
        "first_day": report["since"],
        "last_day": days[-1]["day"] if days else report["since"],
        "bars": bar_chart([day["usd"] for day in days]),
        "dearest_day": max(report["days"], key=lambda day: day["usd"], default=None),
    }
    return Page("Costs", "costs.html", {"budgets": found["budgets"], "costs": report}, view, REFRESH_S)


def with_shares(names: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return *names*, each with its part of the dearest one in per cent."""
    dearest = max((one["usd"] for one in names), default=0.0)
    return [{**one, "share": round(100 * one["usd"] / dearest, 2) if dearest else 0.0} for one in names]


def _each_day(days: Sequence[Mapping[str, Any]], since: str) -> list[dict[str, Any]]:
    """Return every day from *since* to the last one on which something was spent."""
    known = {day["day"]: day["usd"] for day in days}
    last = max(known, default=since)
    first = date.fromisoformat(since)
    number = (date.fromisoformat(last) - first).days + 1
    every = [(first + timedelta(days=one)).isoformat() for one in range(number)]
    return [{"day": day, "usd": known.get(day, 0.0)} for day in every]


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
ACTIONS = (ActionRoute("/costs/budgets", set_budget, "runs:operate"),)
