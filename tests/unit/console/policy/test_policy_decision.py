"""The page that explains a decision: what is recorded comes first, and what is asked now says that it is."""

import json
from typing import Any

import pytest
from tests.support.answered_api import AnsweredApi, asked_of

from towpath_console.api import ApiRefusalError
from towpath_console.pages.policy import policy_decision
from towpath_console.renderer import Renderer
from towpath_contracts.canonical import digest

RUN = "01a21845-b704-742b-8158-186564bfbba8"
CALL = "da500714-597f-5802-b5a7-d562c8f3d7e5"
HOSTILE = "<script>alert(1)</script>"
AROUND = {"section": "/policy", "url": "/", "live": "", "message": ""}
DECIDED = {
    "entry_id": 14, "at": "2026-11-26T14:00:00Z", "run_id": RUN, "execution_id": CALL, "phase": "decision",
    "verdict": "deny", "tool": HOSTILE, "network": "n", "agent_key": "a", "caller": "mia", "rule": "large",
    "policy_version": 3, "args_digest": "", "detail": {"reason": HOSTILE}, "erased": False,
}  # fmt: skip
TRACE = [{"rule": "large", "effect": "deny", "matched": True, "detail": HOSTILE}]
MADE = {"execution_id": CALL, "step_number": 2, "agent_id": "a", "tool": "t", "args": {"amount": 500}}


HISTORY = {"steps": [{}], "tool_executions": [MADE], "next_after_step": None, "seq": 9}


def platform(
    version: int = 3, entries: Any = (DECIDED,), history: Any = HISTORY, trace: Any = TRACE, **statuses: int
) -> AnsweredApi:
    return AnsweredApi(
        {
            "/v1/audit": {"entries": list(entries), "next_before": None, "total": 1},
            "/v1/policy": {"version": 3, "rules": [{"name": "large", "effect": "deny", "when": "args.amount > 100"}]},
            f"/v1/runs/{RUN}": {"run_id": RUN, "network": "n", "caller": "mia", "labels": {}, "code": "run_erased"},
            f"/v1/runs/{RUN}/history": history,
            "/v1/policy/check": {"verdict": "deny", "rule": "large", "policy_version": version, "trace": trace},
        },
        {f"/v1/runs/{RUN}": statuses.get("run", 200)},
    )


async def shown(api: AnsweredApi, **query: str) -> str:
    page = await policy_decision.decision(asked_of(api, query))
    assert json.loads(json.dumps(page.data))
    html = Renderer().whole(page, **AROUND, query=query)
    assert "<script>alert" not in html
    return html


@pytest.mark.parametrize("named", ["14", CALL, f" {CALL.upper()} "])
async def test_a_decision_is_explained_by_the_number_of_its_entry_or_the_id_of_its_call(named: str) -> None:
    html = await shown(platform(), id=named)
    assert "args.amount &gt; 100" in html and "500" in html and "Version 3 is in force still" in html
    assert f"/runs/{RUN}/steps/2?tab=policy" in html and "/audit/entries/14#proof" in html


async def test_the_rule_is_said_in_words_with_its_yaml_beneath_and_rules_that_do_not_fit_are_folded() -> None:
    other = {"rule": "other", "effect": "allow", "matched": False, "detail": "-"}
    html = await shown(platform(trace=[*TRACE, other]), id="14")
    assert "Any agent may not call any tool, where args.amount &gt; 100." in html
    assert "- name: large\n  effect: deny\n  when: args.amount &gt; 100" in html
    assert "<summary>1 other rule of this tool does not fit</summary>" in html
    assert html.index('aria-label="Rules that fit"') < html.index("<summary>1 other rule")


async def test_rules_of_a_later_version_are_not_shown_as_those_that_decided() -> None:
    html = await shown(platform(version=5), id="14")
    assert "Version 5 is in force by now" in html and "is in force still" not in html


async def test_a_run_that_is_gone_leaves_what_is_recorded() -> None:
    html = await shown(platform(run=410), id="14")
    assert "The rule, as it stood then" in html and "How each rule" not in html


async def test_what_is_no_decision_is_not_explained() -> None:
    for entries in ((), (DECIDED | {"phase": "outcome"},), (DECIDED | {"entry_id": 13},)):
        assert "No decision has the id 14" in await shown(platform(entries=entries), id="14")
    with pytest.raises(ApiRefusalError):
        await shown(platform(), id="../keys")
    assert "look through them" in await shown(platform())


@pytest.mark.parametrize(("place", "is_shown"), [(500, True), (501, False)])
async def test_the_call_is_looked_for_in_the_first_five_hundred_steps_and_a_later_one_is_said_not_to_be_there(
    place: int, is_shown: bool
) -> None:
    def history(sent: Any) -> dict[str, Any]:
        read = int(sent["limit"])
        return {
            "steps": [{}] * read,
            "tool_executions": [MADE] if read >= place else [],
            "next_after_step": read,
            "seq": 9,
        }

    html = await shown(platform(history=history), id="14")
    assert ("500" in html, "not among the first steps" in html) == (is_shown, not is_shown)


EDITED = MADE | {"args": {"amount": 64, "order": "o-1"}, "call_index": 0}
ASKED = {"amount": 500, "order": "o-1"}


def edited(action: Any) -> dict[str, Any]:
    step = {"step_number": 2, "action": {"action": "USE_TOOL", "action_details": action}}
    return {"steps": [{}, step], "tool_executions": [EDITED], "next_after_step": None, "seq": 9}


@pytest.mark.parametrize(
    "action",
    [
        {"tool_name": "t", "tool_params": ASKED},
        {"calls": [{"tool_name": "t", "tool_params": {"amount": 1}}, {"tool_name": "t", "tool_params": ASKED}]},
    ],
)
async def test_of_a_call_that_was_edited_since_the_arguments_are_shown_that_were_decided_about(action: Any) -> None:
    decided = DECIDED | {"args_digest": digest(ASKED)}
    api = platform(entries=[decided], history=edited(action))
    html = await shown(api, id="14")
    about = html.partition("What it was asked about")[2]
    before, _, since = about.partition("<details")
    assert "500" in before and "64" not in before, "first what was asked about"
    assert "Somebody changed <code>amount</code> since" in before and "64" in since.partition("</details>")[0]
    asked = next(sent for _, path, sent in api.seen if path == "/v1/policy/check")
    assert asked["args"] == ASKED, "the rules are weighed for what was decided about"


async def test_arguments_that_are_not_those_of_the_digest_are_never_shown_as_those_that_were_decided_about() -> None:
    decided = DECIDED | {"args_digest": digest({"amount": 7})}
    api = platform(entries=[decided], history=edited({"tool_name": "t", "tool_params": {"amount": 1}}))
    html = await shown(api, id="14")
    assert "They were changed since, and are not kept here" in html
    assert "64" in html.partition("<details")[2].partition("</details>")[0], "what it runs with is said to be that"
    assert "How each rule" not in html and all(path != "/v1/policy/check" for _, path, _ in api.seen)


async def test_the_arguments_that_a_digest_fits_were_not_changed() -> None:
    html = await shown(platform(entries=[DECIDED | {"args_digest": digest(MADE["args"])}]), id="14")
    assert "500" in html and "since" not in html.partition("What it was asked about")[2].partition("How each")[0]
