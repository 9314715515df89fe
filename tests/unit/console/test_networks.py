"""Pages of networks: what is pasted comes back whole with every problem, and nothing of it becomes markup."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml

from towpath_console.api import Api, ApiRefusalError
from towpath_console.definition_text import DefinitionError, read_definition, write_definition
from towpath_console.page import Asked, Done, Page
from towpath_console.pages.names import checked_name, number_of
from towpath_console.pages.network import network, publish_again, run_network
from towpath_console.pages.networks import check_network, networks, publish_network
from towpath_console.renderer import Renderer
from towpath_contracts.networks.spec import NetworkSpec

AROUND = {"section": "/networks", "url": "/", "query": {}, "live": "/console/live?page=%2F", "message": ""}
HOSTILE = "</textarea><script>alert(1)</script>\u202e\u200b"
Json = dict[str, Any]


def spec(**more: Any) -> Json:
    agents = [
        {"key": "first", "is_default": True, "allowed_routes": ["second"], "prompt_template": "Hand over.\nNow."},
        {"key": "second", "allow_respond": True, "equipped_tools": ["orders.find"], "description": HOSTILE},
    ]
    return NetworkSpec.model_validate({"name": "team/shop", "agents": agents, **more}).model_dump(mode="json")


def version(number: int, definition: Json) -> Json:
    agents = {one["key"]: {**one, "model": "scripted:task"} for one in definition["agents"]}
    tools = {"orders.find": {"name": "orders.find", "effect_class": "pure", "description": HOSTILE}}
    snapshot = {"network": "team/shop", "default_agent_key": "first", "agents": agents, "tools": tools, "max_steps": 10}
    return {
        "name": "team/shop", "version": number, "digest": f"sha256:{number}", "published_by": HOSTILE, "current": True,
        "published_at": "2026-11-26T14:00:00Z", "snapshot": snapshot, "spec": definition, "unchanged": False,
    }  # fmt: skip


class RecordedApi(Api):
    """Answers what is recorded for a path, and keeps what it was sent."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, Json]] = []

    async def get(self, path: str, **params: str | int | None) -> Json:
        wanted = {name: value for name, value in params.items() if value is not None}
        found = self.answers[path]
        return self._answered(found(wanted) if callable(found) else found)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> Json:
        self.sent.append((path, dict(body or {})))
        return self._answered(self.answers[f"POST {path}"])

    def _answered(self, found: Any) -> Json:
        if isinstance(found, ApiRefusalError):
            raise found
        return dict(found)


OLD, NEW = version(1, spec()), version(2, spec(max_steps=12, description="New."))


def shop(**answers: Any) -> RecordedApi:
    listed = {"networks": [NEW, OLD], "next_before": None}
    one = "/v1/networks/team/shop"
    prompt = {"agent_key": "first", "model": "m", "prompt": HOSTILE, "digest": "sha256:p"}
    return RecordedApi(
        {
            "/v1/networks": listed,
            one: lambda params: OLD if params.get("version") == 1 else NEW,
            f"POST {one}/prompt": prompt,
            "POST /v1/networks/validate": version(3, spec(max_steps=9)),
            "POST /v1/networks": version(3, spec()),
            "POST /v1/runs": {"run_id": "r1"},
            **answers,
        }
    )


def asked(api: Api, query: Mapping[str, str] | None = None, **path: str) -> Asked:
    return Asked(api, path, query or {}, "/networks")


def drawn(page: Page | Done) -> str:
    assert isinstance(page, Page), page
    json.dumps(page.data)  # its twin
    html = Renderer().whole(page, **AROUND)
    assert "<script>alert" not in html and "\u202e" not in html.split('name="text"')[0], "but in what is sent back"
    return html


@pytest.mark.parametrize("tab", ["graph", "prompts", "versions", "definition", "nothing-of-the-kind"])
async def test_every_part_of_a_network_is_drawn(tab: str) -> None:
    html = drawn(await network(asked(shop(), {"tab": tab}, network="team/shop")))
    assert "version 2, current" in html and 'aria-current="page"' in html


async def test_the_prompt_is_that_of_the_task_that_was_written() -> None:
    api = shop()
    html = drawn(await network(asked(api, {"tab": "prompts", "task": "Refund <8811>"}, network="team/shop")))
    assert [body["user_message"] for path, body in api.sent if path.endswith("/prompt")] == ["Refund <8811>"]
    assert 'name="task" value="Refund &lt;8811&gt;"' in html


async def test_an_older_version_is_told_from_the_current_one() -> None:
    html = drawn(await network(asked(shop(), {"version": "1"}, network="team/shop")))
    assert "You look at an older version." in html and 'name="version" value="1"' in html


async def test_versions_are_compared_with_the_one_before() -> None:
    page = await network(asked(shop(), {"tab": "versions"}, network="team/shop"))
    html = drawn(page)
    assert "From version 1 to version 2" in html and "max_steps" in html and "description" in html
    assert [one["member"] for one in page.data["changes"]["shown"]] == ["description", "max_steps"]


async def test_the_list_is_filtered_and_names_what_was_looked_for() -> None:
    found = drawn(await networks(asked(shop(), {"q": "SHOP"})))
    assert "/networks/team/shop" in found
    assert "No network has nobody in its name." in drawn(await networks(asked(shop(), {"q": "nobody"})))


async def test_what_is_checked_is_shown_before_it_is_published() -> None:
    api = shop()
    html = drawn(await check_network(asked(api), {"text": write_definition(spec(max_steps=9))}))
    assert "Publish version 3" in html and "What differs from version 2" in html
    assert [path for path, _ in api.sent] == ["/v1/networks/validate"], "nothing is published"


async def test_every_problem_is_told_with_its_line_and_the_text_comes_back_whole() -> None:
    errors = [{"pointer": "/agents/0/colour", "detail": "no such member"}, {"pointer": "/name", "detail": HOSTILE}]
    refused = ApiRefusalError(422, {"code": "network_invalid", "title": "Refused", "errors": errors})
    text = f"name: shop\nagents:\n- key: a\n  colour: red\n  description: {json.dumps(HOSTILE, ensure_ascii=False)}\n"
    for act in (check_network, publish_network):
        api = shop(**{"POST /v1/networks/validate": refused, "POST /v1/networks": refused})
        page = await act(asked(api), {"text": text})
        assert isinstance(page, Page) and page.status == 422
        assert [(one["line"], one["pointer"]) for one in page.data["problems"]] == [
            (4, "/agents/0/colour"),
            (1, "/name"),
        ]
        html = drawn(page)
        assert "no such member" in html and "2 hidden characters" in html
        assert "\u202e\u200b" in html.split("<textarea")[1], "so that it can be sent again as it was"


async def test_who_may_not_publish_is_told_by_the_api() -> None:
    denied = ApiRefusalError(403, {"code": "scope_missing", "title": "Not allowed"})
    with pytest.raises(ApiRefusalError):
        await publish_network(asked(shop(**{"POST /v1/networks": denied})), {"text": write_definition(spec())})


async def test_what_somebody_published_after_the_check_is_not_overwritten() -> None:
    html = drawn(await check_network(asked(shop()), {"text": write_definition(spec(max_steps=9))}))
    assert 'name="if_version" value="2"' in html
    api = shop(**{"POST /v1/networks": ApiRefusalError(409, {"code": "network_moved", "detail": f"{HOSTILE} now"})})
    text = write_definition(spec(max_steps=9))
    page = await publish_network(asked(api), {"text": text, "if_version": "2"})
    assert isinstance(page, Page) and page.status == 409 and page.data["problem"]["code"] == "network_moved"
    assert api.sent[0][1]["if_version"] == 2
    html = drawn(page)
    assert "Somebody has published meanwhile" in html and "max_steps: 9" in html.split("<textarea")[1]
    assert 'action="/networks"' not in html, "it is checked again before it can be published"
    assert (await publish_network(asked(fresh := shop()), {"text": text, "if_version": "0"})) and fresh.sent
    assert fresh.sent[0][1]["if_version"] == 0, "a network that was not there yet"
    with pytest.raises(ApiRefusalError, match="request_invalid"):
        await publish_network(asked(shop()), {"text": text, "if_version": "two"})


async def test_an_older_version_is_published_again_from_its_own_definition() -> None:
    api = shop()
    done = await publish_again(asked(api, network="team/shop"), {"version": "1"})
    assert api.sent == [("/v1/networks", {"spec": OLD["spec"]})]
    await publish_again(asked(api, network="team/shop"), {"version": "1", "if_version": "2"})
    assert api.sent[1] == ("/v1/networks", {"spec": OLD["spec"], "if_version": 2})
    assert done == Done("/networks/team/shop", "team/shop: version 3 is current.")


async def test_the_version_that_was_looked_at_is_run() -> None:
    api = shop()
    form = {"message": "hello", "version": "1", "model": "", "script": '[{"action": "RESPOND"}]'}
    assert (await run_network(asked(api, network="team/shop"), form)).location == "/runs/r1"
    task = {"network": "team/shop", "user_message": "hello", "version": 1, "script": [{"action": "RESPOND"}]}
    assert api.sent == [("/v1/runs", task)]
    with pytest.raises(ApiRefusalError, match="request_invalid"):
        await run_network(asked(api, network="team/shop"), {"message": "x", "script": "[nonsense"})


@pytest.mark.parametrize("name", ["../runs", "a/../../runs", "a/./b", "a?b", "", "a b", "é", "x" * 200])
def test_a_name_leads_nowhere_else(name: str) -> None:
    with pytest.raises(ApiRefusalError):
        checked_name(name, "network")


def test_a_number_is_a_number() -> None:
    assert (number_of("12", "version"), number_of("", "version"), number_of(None, "version")) == (12, None, None)
    for text in ("x", "-1", "1e9", "٣", "1234567890"):
        with pytest.raises(ApiRefusalError):
            number_of(text, "version")


def test_a_definition_is_written_so_that_it_reads_the_same() -> None:
    for definition in (spec(), spec(max_steps=12, description="a: b # c", labels={"team": "shop"})):
        written = write_definition(definition)
        assert NetworkSpec.model_validate(read_definition(written).spec) == NetworkSpec.model_validate(definition)
        assert "prompt_template: |" in written and "force_respond" not in written, "defaults are left out"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("a: [1, 2\nb: 3\n", 2, "not YAML"),
        ("a: &x 1\nb: *x\n", 2, "aliases"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", 4, "given twice"),
        ("- 1\n", 1, "mapping"),
        ("a: .nan\n", 1, "JSON"),
        ("? [1, 2]\n: 3\n", 1, "not YAML"),
        ("a: !!python/object:os.system x\n", 1, "not YAML"),
        ("[" * 5_000, 1, ""),
        (f"a: [{'1,' * 49_995}*x]", 1, "aliases"),
        (f"a: [{'1,' * 49_996}*x]", 1, "more than 50,000"),
        ("x" * 400_001, 1, "400,000 characters"),
    ],
)
def test_what_is_no_definition_is_refused_with_its_line(text: str, line: int, says: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        read_definition(text)
    assert refused.value.faults[0].line == line and says in refused.value.faults[0].detail


def test_json_and_times_are_read_as_they_are_written() -> None:
    assert read_definition(json.dumps(spec())).spec == spec()
    assert read_definition("since: 2026-11-26\n").spec == {"since": "2026-11-26"}
    assert yaml.safe_load(write_definition(spec()))["kind"] == "Network"


def test_a_definition_may_have_as_many_characters_as_it_says() -> None:
    assert read_definition(f"a: {'x' * 399_997}").spec == {"a": "x" * 399_997}


async def test_versions_are_listed_twenty_at_a_time() -> None:
    versions = [version(number, spec()) for number in range(21, 0, -1)]

    def answer(params: Json) -> Json:
        some = versions[: params["limit"]]
        return {"networks": some, "next_before": some[-1]["version"] if len(some) < len(versions) else None}

    html = drawn(await network(asked(shop(**{"/v1/networks": answer}), {"tab": "versions"}, network="team/shop")))
    assert html.count("sha256:") >= 20 and "before=2" in html and "Older versions" in html
    del versions[20:]
    html = drawn(await network(asked(shop(**{"/v1/networks": answer}), {"tab": "versions"}, network="team/shop")))
    assert "Older versions" not in html
