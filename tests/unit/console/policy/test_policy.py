"""The pages of the policy: what the API says of agents, rules and calls, and nothing that it did not say."""

import json
from html.parser import HTMLParser
from typing import Any

import pytest
from tests.support.answered_api import AnsweredApi, asked_of

from towpath_console.api import ApiRefusalError
from towpath_console.caller import NOBODY
from towpath_console.page import Done, Page
from towpath_console.pages.policy import (
    policy_impact,
    policy_matrix,
    policy_question,
    policy_rules,
    policy_versions,
)
from towpath_console.renderer import Renderer

AROUND = {"section": "/policy", "url": "/policy", "query": {}, "live": "", "message": ""}
HOSTILE = '"><script>alert(1)</script>\u202e{{ 7 * 7 }}'


class TagList(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def rule(name: str, effect: str = "allow", **members: Any) -> dict[str, Any]:
    return {
        "name": name, "effect": effect, "project": "*", "network": "*", "agent": "*", "agent_type": "*", "caller": "*",
        "tool": "*", "operation": "*", "when": None, "max_calls_per_run": None, "rate_calls": None, "rate_per_s": None,
        "max_cost_per_run_usd": None, "expires_s": 86400, "quorum": 1, "on_expiry": "deny", "discovered": False,
        "note": "", "owner": "", "digest": "sha256:0", **members,
    }  # fmt: skip


def policy_of(*rules: dict[str, Any], text: str = "kind: Policy\n") -> dict[str, Any]:
    return {
        "version": 3, "digest": "sha256:3", "text": text, "applied_at": "2026-11-26T14:00:00Z", "applied_by": "mia",
        "note": "why", "rules": list(rules),
    }  # fmt: skip


def permission(tool: str, verdict: str, *rules: str, conditional: bool = False) -> dict[str, Any]:
    return {
        "tool": tool, "operation": "call", "verdict": verdict, "conditional": conditional, "rules": list(rules),
        "doubt": "",
    }  # fmt: skip


def tool(name: str, toolset: str = "shop") -> dict[str, Any]:
    return {"name": name, "toolset": toolset, "effect_class": "pure", "internal": False, "parameters": {}}


def platform_of(agents: int, tools: int, policy: dict[str, Any], said: list[dict[str, Any]]) -> AnsweredApi:
    keys = [f"agent-{n:02}" for n in range(agents)]
    snapshot = {"default_agent_key": keys[0], "agents": {key: {"agent_type": "clerk"} for key in keys}}
    answers: dict[str, Any] = {
        "/v1/policy": policy,
        "/v1/tools": {"tools": [tool(f"tool.{n:02}", f"set-{n % 6}") for n in range(tools)]},
        "/v1/networks": {"networks": [{"name": "support"}]},
        "/v1/networks/support": {"snapshot": snapshot},
    }
    answers |= {f"/v1/permissions/support/{key}": {"policy_version": 3, "permissions": said} for key in keys}
    return AnsweredApi(answers)


def drawn(page: Page) -> TagList:
    return TagList(Renderer().whole(page, **AROUND))


async def test_a_cell_says_what_the_api_says_and_by_whose_rule() -> None:
    rules = (rule("own", agent="agent-00"), rule("above", "require_approval", agent="agent-00"), rule("all"))
    said = [
        permission("tool.00", "allow", "own", "above", conditional=True),
        permission("tool.01", "allow", "all"),
        permission("tool.02", "deny", "all", "above", conditional=False),
    ]
    page = await policy_matrix.matrix(asked_of(platform_of(1, 3, policy_of(*rules), said)))
    assert isinstance(page, Page)
    cells = {row["tool"]: row["cells"][0] for row in page.data["tools"]}
    first = {"words": ("allow", "ask"), "conditional": True, "how": "own", "rules": ("own", "above")}
    assert cells["tool.00"] == {"agent": "agent-00", **first}
    assert (cells["tool.01"]["words"], cells["tool.01"]["how"]) == (("allow",), "inherited")
    assert cells["tool.02"]["words"] == ("deny",), "what is denied is never shown as allowed"
    assert json.loads(json.dumps(page.data)), "it has a twin in JSON"


async def test_a_tool_without_a_rule_is_denied_and_shown_when_it_is_asked_for() -> None:
    api = platform_of(2, 4, policy_of(rule("all")), [permission("tool.01", "allow", "all")])
    page = await policy_matrix.matrix(asked_of(api))
    assert [row["tool"] for row in page.data["tools"]] == ["tool.01"] and page.view["hidden"] == 3
    page = await policy_matrix.matrix(asked_of(api, {"all": "yes"}))
    assert len(page.data["tools"]) == 4
    without = next(row for row in page.data["tools"] if row["tool"] == "tool.03")
    assert [(cell["words"], cell["how"]) for cell in without["cells"]] == [(("deny",), "default")] * 2
    assert "no rule" in drawn(page).text


@pytest.mark.parametrize(("agents", "has_words"), [(8, True), (9, False)])
async def test_cells_have_words_while_there_is_room_and_signs_with_more_agents(agents: int, has_words: bool) -> None:
    api = platform_of(agents, 1, policy_of(rule("all")), [permission("tool.00", "allow", "all")])
    html = Renderer().whole(await policy_matrix.matrix(asked_of(api)), **AROUND)
    assert ("<em>allow</em>" in html) == has_words and ('class="matrix dense"' in html) != has_words
    assert has_words or html.count('<i class="unseen"> allow</i>') == agents, "for those who do not see the signs"


async def test_thirty_agents_and_sixty_tools_fit_a_page_and_more_are_asked_for_page_by_page() -> None:
    said = [permission(f"tool.{n:02}", "allow", "all") for n in range(90)]
    api = platform_of(47, 90, policy_of(rule("all")), said)
    page = await policy_matrix.matrix(asked_of(api))
    assert (len(page.data["agents"]), len(page.data["tools"])) == (30, 70)
    assert len(Renderer().whole(page, **AROUND)) < 250_000
    assert sum("/v1/permissions/" in path for _, path, _ in api.seen) == 30, "nobody is asked about who is not shown"
    assert all(sent == {"agent_type": "clerk"} for _, path, sent in api.seen if "/v1/permissions/" in path)
    query = {"agents_from": page.view["agents_next"], "tools_from": page.view["tools_next"]}
    rest = await policy_matrix.matrix(asked_of(api, query))
    assert (len(rest.data["agents"]), len(rest.data["tools"])) == (17, 20)
    one = await policy_matrix.matrix(asked_of(api, {"agent": "agent-31", "tool": "tool.7", "toolset": "set-0"}))
    assert (one.data["agents"], [row["tool"] for row in one.data["tools"]]) == (["agent-31"], ["tool.72", "tool.78"])


async def test_who_may_not_see_networks_still_sees_an_agent_that_they_name() -> None:
    api = AnsweredApi(
        {
            "/v1/policy": policy_of(rule("all")),
            "/v1/tools": {"tools": [tool("t")]},
            "/v1/networks": {"code": "forbidden"},
            "/v1/networks/support": {"code": "forbidden"},
            "/v1/permissions/support/billing": {"permissions": [permission("t", "allow", "all")]},
        },
        {"/v1/networks": 403, "/v1/networks/support": 403},
    )
    page = await policy_matrix.matrix(asked_of(api, {"network": "support"}))
    assert "networks:read" in drawn(page).text
    page = await policy_matrix.matrix(asked_of(api, {"network": "support", "agent": "billing"}))
    assert page.data["agents"] == ["billing"] and "allow" in drawn(page).text


async def test_rules_are_those_that_speak_of_what_is_asked_for() -> None:
    rules = (
        rule("refunds", "require_approval", agent="billing", tool="orders.*", when="args.amount > 100", quorum=2),
        rule("reads", tool="*.read", rate_calls=5, rate_per_s=60),
        rule("nobody", "deny", tool="orders.delete", note="never"),
    )
    api = AnsweredApi({"/v1/policy": policy_of(*rules)})

    async def names(**query: str) -> list[str]:
        page = await policy_rules.rules(asked_of(api, query))
        return [one["name"] for one in page.data["rules"]]

    assert await names() == ["refunds", "reads", "nobody"]
    assert await names(tool="orders.refund", agent="billing") == ["refunds"]
    assert await names(tool="orders.refund", agent="tech") == []
    assert await names(effect="deny") == ["nobody"]
    assert await names(q="never ORDERS") == ["nobody"]
    text = drawn(await policy_rules.rules(asked_of(api))).text
    assert "asks 2 people; after 24 h without an answer: deny" in text and "at most 5 calls in 60 s" in text


async def test_a_question_is_put_as_it_was_written_and_refusals_stand_beside_it() -> None:
    verdict = {
        "verdict": "deny", "rule": None, "reason": "no rule allows it", "violation_type": "permission_denied",
        "policy_version": 3, "allowed_tools": ["orders.find"], "suggestion": "Try orders.find.", "hints": ["nobody"],
        "trace": [{"rule": "small", "effect": "allow", "matched": False, "detail": "agent differs"}], "origins": [],
        "denial": None,
    }  # fmt: skip
    snapshot = {"snapshot": {"agents": {"tech": {"agent_type": "clerk"}}}}
    api = AnsweredApi({"/v1/policy/check": verdict, "/v1/networks/support": snapshot, "/v1/networks": {"networks": []}})
    api_query = {"network": "support", "agent": "tech", "tool": "orders.refund", "args": '{"amount": 129}'}
    with pytest.raises(ApiRefusalError):  # nothing is recorded for the tools
        await policy_question.simulate(asked_of(api, api_query))
    api._answers = {**api._answers, "/v1/tools": {"tools": [tool("orders.refund")]}}
    page = await policy_question.simulate(asked_of(api, api_query))
    question = {"network": "support", "agent_key": "tech", "tool": "orders.refund", "args": {"amount": 129}}
    assert page.data["question"] == question | {"agent_type": "clerk"}
    text = drawn(page).text
    assert "no rule allows it" in text and "agent differs" in text and "Try orders.find." in text
    assert """towpath policy check --network 'support'""" in text
    for wrong in ("{", "[1]", '"x"', "[" * 3000):
        page = await policy_question.simulate(asked_of(api, api_query | {"args": wrong}))
        assert "The arguments can't be read" in drawn(page).text
    quoted = await policy_question.simulate(asked_of(api, api_query | {"agent": "x'; rm -rf ~'"}))
    assert quoted.view["command"] == "", "no command that a shell would read otherwise"


async def test_a_call_is_asked_about_with_the_arguments_that_it_needs_until_others_are_written() -> None:
    properties = {"order_id": {"type": "string"}, "amount": {"type": "number"}, "why": {"enum": ["broken", "late"]}}
    refund = tool("orders.refund") | {
        "parameters": {"properties": properties | {"note": {"type": "string"}}, "required": list(properties)}
    }
    network = {"network": "support", "agent": "tech", "tool": "orders.refund"}
    answers = {
        "/v1/networks": {"networks": [{"name": "support"}]},
        "/v1/networks/support": {"snapshot": {"agents": {"tech": {}}}},
        "/v1/tools": {"tools": [refund]},
        "/v1/policy/check": {"verdict": "allow", "rule": "small", "policy_version": 1, "trace": []},
    }
    page = await policy_question.simulate(asked_of(AnsweredApi(answers), network))
    assert page.data["question"]["args"] == {"order_id": "...", "amount": 1, "why": "broken"}
    assert "values that stand for any" in drawn(page).text
    page = await policy_question.simulate(asked_of(AnsweredApi(answers), network | {"args": '{"amount": 129}'}))
    assert page.data["question"]["args"] == {"amount": 129} and "stand for any" not in drawn(page).text
    page = await policy_question.simulate(asked_of(AnsweredApi(answers)))
    assert page.view["agents"] == ["tech"], "those of the network that the form has chosen"


async def test_a_pasted_policy_is_compared_piece_by_piece_and_its_problems_are_listed() -> None:
    group = {
        "change": "newly_denied", "was": "allow", "network": "n", "agent_key": "a", "tool": "t", "calls": 2,
        "examples": [],
    }  # fmt: skip

    def piece(sent: dict[str, Any]) -> dict[str, Any]:
        after = sent.get("after", 0)
        rest = None if after >= 20 else after + 10
        return {"version": 3, "calls": 10, "groups": [group], "left_out": {}, "next_after": rest, "last": 30}

    api = AnsweredApi({"/v1/policy/diff": piece})
    form = {"text": "kind: Policy\r\nrules: []\r\n", "since": "2026-11-01T00:00"}
    page = await policy_impact.compare(asked_of(api), form)
    assert page.data["calls"] == 30 and page.view["other"] == 6
    assert [sent["text"] for _, _, sent in api.seen] == ["kind: Policy\nrules: []\n"] * 3
    assert api.seen[0][2]["since"] == "2026-11-01T00:00Z" and api.seen[2][2]["after"] == 20

    def of_pieces(number: int) -> AnsweredApi:
        def answer(sent: dict[str, Any]) -> dict[str, Any]:
            after = sent.get("after", 0) + 10
            return piece(sent) | {"next_after": after if after < number * 10 else None}

        return AnsweredApi({"/v1/policy/diff": answer})

    six = of_pieces(6)
    page = await policy_impact.compare(asked_of(six), form)
    assert len(six.seen) == 5 and "Only the oldest 50 calls of this time were compared" in drawn(page).text
    assert "Only the oldest" not in drawn(await policy_impact.compare(asked_of(of_pieces(5)), form)).text
    problem = {"code": "policy_invalid", "title": "It can't be", "errors": [{"pointer": "/kind", "detail": "line 1"}]}
    refusing = AnsweredApi({"/v1/policy/diff": problem}, {"/v1/policy/diff": 422})
    page = await policy_impact.compare(asked_of(refusing), form)
    text = drawn(page).text
    assert "It can't be" in text and "/kind" in text and "rules: []" in text, "what was written is not lost"


@pytest.mark.parametrize("text", ["x" * 30_000, "kind: Policy\n# \u202e hidden"])
async def test_a_policy_that_would_be_shown_changed_is_not_offered_for_editing(text: str) -> None:
    page = await policy_impact.editor(asked_of(AnsweredApi({"/v1/policy": policy_of(text=text)})))
    assert page.view["text"] == "" and "paste it again" in drawn(page).text


async def test_rolling_back_needs_a_reason_and_the_version_that_was_looked_at() -> None:
    api = AnsweredApi({"/v1/policy/rollback": {"version": 4, "changed": True}})
    with pytest.raises(ApiRefusalError, match="request_invalid"):
        await policy_versions.roll_back(asked_of(api, version="1"), {"note": "  ", "if_version": "3"})
    done = await policy_versions.roll_back(asked_of(api, version="1"), {"note": "too strict", "if_version": "3"})
    assert isinstance(done, Done) and "as version 4" in done.message
    assert api.seen[0][2] == {"version": 1, "note": "too strict", "if_version": 3}
    for wrong in ("0", "-1", "x", "9" * 12, "٣"):
        with pytest.raises(ApiRefusalError):
            await policy_versions.version(asked_of(api, version=wrong))


def version_of(*rules: dict[str, Any], changes: list[dict[str, Any]]) -> AnsweredApi:
    entry = {"version": 3, "source": "", "changes": changes, "more": 0}
    return AnsweredApi(
        {
            "/v1/policy": policy_of(*rules),
            "/v1/policy/changes": {"changes": [entry]},
            "/v1/policy/versions": {"versions": [], "current": 3},
        }
    )


@pytest.mark.parametrize(("number", "is_open"), [(12, True), (13, False)])
async def test_what_a_version_changed_is_grouped_by_agent_and_folded_where_it_is_much(
    number: int, is_open: bool
) -> None:
    rules = [rule(f"r{n}", network="shop", agent=f"agent{n % 3}", tool="orders.find") for n in range(number)]
    added = [{"name": one["name"], "change": "added", "fields": [], "before": None, "after": one} for one in rules]
    page = await policy_versions.version(asked_of(version_of(*rules, rule("kept"), changes=added), version="3"))
    assert [group["whom"] for group in page.view["groups"]] == [f"shop · agent{n}" for n in range(3)]
    html = Renderer().whole(page, **AROUND)
    assert html.count('<details class="card fold rule-group" open>') == (3 if is_open else 0)
    assert "Agent agent1 of network shop may call orders.find." in html
    assert f"{number} added; 1 unchanged." in drawn(page).text
    assert '<details class="card fold rule-group"><summary><h3>Unchanged</h3>' in html, "folded whatever is open"


async def test_rules_of_no_agent_stand_in_groups_of_their_own() -> None:
    rules = [rule("a"), rule("b", network="shop"), rule("c", agent="billing"), rule("d", effect="deny")]
    gone = [{"name": one["name"], "change": "removed", "fields": [], "before": one, "after": None} for one in rules]
    page = await policy_versions.version(asked_of(version_of(changes=gone), version="3"))
    groups = {group["whom"]: [one["name"] for one in group["changes"]] for group in page.view["groups"]}
    assert groups == {"Every network": ["a", "d"], "shop · every agent": ["b"], "billing": ["c"]}
    assert dict(page.view["groups"][0]["effects"]) == {"allow": 1, "deny": 1}


async def test_a_shadow_is_set_from_the_form_and_ended_with_a_reason() -> None:
    api = AnsweredApi({"/v1/policy/shadow": {"on": True}})
    await policy_impact.set_shadow(asked_of(api), {"text": "kind: Policy\r\n", "note": "try"})
    await policy_impact.end_shadow(asked_of(api), {"note": "tried"})
    put, delete = api.seen
    assert put[0] == "PUT" and put[2]["text"] == "kind: Policy\n" and put[2]["note"] == "try"
    assert delete[0] == "DELETE" and delete[2] == {"note": "tried"}


async def test_what_somebody_may_not_press_is_disabled_and_says_who_may() -> None:
    page = await policy_impact.editor(asked_of(AnsweredApi({"/v1/policy": policy_of()})))
    assert "<fieldset" not in Renderer().whole(page, **AROUND)
    html = Renderer().whole(page, **AROUND, caller=NOBODY)
    assert "<fieldset" in html and "Only for somebody with the scope policy:write." in html


async def test_hostile_words_of_a_policy_stay_words() -> None:
    async def tags(words: str) -> tuple[list[str], str]:
        one = rule(words, agent=words, note=words, when=words, owner=words, tool=words)
        said = [permission("tool.00", "allow", words, conditional=True) | {"doubt": words}]
        rules = drawn(await policy_rules.rules(asked_of(AnsweredApi({"/v1/policy": policy_of(one)}))))
        matrix = drawn(await policy_matrix.matrix(asked_of(platform_of(1, 1, policy_of(one), said))))
        change = {"name": words, "change": "altered", "fields": ["note"], "before": {"note": words}, "after": one}
        entry = {"version": 3, "source": words, "changes": [change], "more": 0}
        answers = {
            "/v1/policy": policy_of(one, text=words),
            "/v1/policy/changes": {"changes": [entry]},
            "/v1/policy/versions": {"current": 4, "versions": []},
        }
        version = drawn(await policy_versions.version(asked_of(AnsweredApi(answers), version="3")))
        return rules.tags + matrix.tags + version.tags, rules.text + version.text

    found, text = await tags(HOSTILE)
    calm, _ = await tags("calm")
    assert found == calm and "script>alert(1)" in text and "⟨U+202E⟩" in text and "{{ 7 * 7 }}" in text
