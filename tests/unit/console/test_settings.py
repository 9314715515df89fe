"""Settings: keys that are shown once and ended only on purpose, switches with a reason, notices, and no secret."""

import re
from collections.abc import Mapping
from typing import Any

import pytest
from tests.support.console.recorded_api import FORBIDDEN, RecordedApi, asked_of, drawn

from towpath_console.api import ApiRefusalError
from towpath_console.page import Page
from towpath_console.pages import settings
from towpath_console.pages.providers import check_model, providers
from towpath_gateway.core.api_keys import ALL_SCOPES
from towpath_gateway.core.api_keys import ROLES as PLATFORM_ROLES

KEY = {
    "prefix": "aaaaaaaaaaaa", "caller": "<i>ann</i>", "scopes": ["runs:read"], "roles": ["viewer"], "note": "",
    "created_by": "ben", "created_at": "2026-11-26T14:00:00Z", "expires_at": None, "revoked_at": None, "warnings": [],
}  # fmt: skip
SWITCH = {
    "switch_id": "01a21858-7ec2-7cc8-8fc2-7b5a4728b5fc", "kind": "tool", "name": "crm.*", "reason": "<u>down</u>",
    "paused_by": "ann", "paused_at": "2026-11-26T14:00:00Z",
}  # fmt: skip


def test_the_form_offers_exactly_what_a_key_may_be_given() -> None:
    assert set(settings.SCOPES) == set(ALL_SCOPES)
    assert set(settings.ROLES) == set(PLATFORM_ROLES)


async def test_settings_are_shown_with_their_origin_and_to_others_who_may_see_them() -> None:
    rows = [
        {"name": "TOWPATH_DATABASE_URL", "value": "hidden", "origin": "set", "secret": True},
        {"name": "TOWPATH_LOG_LEVEL", "value": "info", "origin": "default", "secret": False},
    ]
    api = RecordedApi(**{"/v1/settings": {"settings": rows, "instance": "gateway-1"}})
    html = drawn(await settings.configuration(asked_of(api)))
    assert "a secret, not shown" in html and "TOWPATH_LOG_LEVEL" in html and "gateway-1" in html
    query = {"origin": "set"}
    assert "TOWPATH_LOG_LEVEL" not in drawn(await settings.configuration(asked_of(api, query)), query)
    blind = RecordedApi(**{"/v1/settings": FORBIDDEN})
    assert "platform:operate" in drawn(await settings.configuration(asked_of(blind)))


async def test_settings_stand_under_what_they_are_about() -> None:
    names = ("TOWPATH_OIDC_ISSUER", "TOWPATH_NATS_URL", "OTEL_PROPAGATORS", "TOWPATH_EMBEDDED")
    rows = [{"name": name, "value": "x", "origin": "default", "secret": False} for name in names]
    html = drawn(await settings.configuration(asked_of(RecordedApi(**{"/v1/settings": {"settings": rows}}))))
    topics = re.findall(r'rowgroup" colspan="3">(.*?)<', html)
    assert topics == ["Sign-in", "Message bus", "Logs, health and traces", "Process"], "no topic without a setting"


def period(**changed: Any) -> dict[str, Any]:
    given = {"name": "x", "what": "<b>x</b>", "owner": "tas", "since": "its end", "setting": None, "origin": "fixed"}
    return {**given, "kept_s": None, **changed}


@pytest.mark.parametrize(
    ("kept_s", "words"),
    [
        (31_536_000, "365 days"),
        (86_400, "1 day"),
        (90_000, "25 hours"),
        (600, "10 minutes"),
        (61, "61 seconds"),
        (864_000_000, "10,000 days"),
    ],
)
async def test_how_long_something_is_kept_is_written_in_its_largest_whole_unit(kept_s: int, words: str) -> None:
    api = RecordedApi(**{"/v1/settings/retention": {"periods": [period(kept_s=kept_s)]}})
    html = drawn(await settings.retention(asked_of(api)))
    assert f'<td>{words} <span class="hint">from its end on</span>' in html and "<b>x" not in html
    assert '<span class="hint">fixed</span>' in html


@pytest.mark.parametrize(
    ("row", "words", "decided"),
    [
        ({"origin": "set"}, "<td>for ever</td>", "the environment"),
        ({"origin": "default", "kept_s": 86_400}, "<td>1 day ", "default"),
        ({"origin": "unknown"}, "not known while tas does not answer", ""),
    ],
)
async def test_what_a_setting_decides_is_told_with_it_and_what_nobody_tells_is_no_period(
    row: dict[str, Any], words: str, decided: str
) -> None:
    found = {"periods": [period(setting="TOWPATH_AUDIT_KEEP_DAYS", **row)]}
    page = await settings.retention(asked_of(RecordedApi(**{"/v1/settings/retention": found})))
    html = drawn(page)
    assert words in html and f'<code>TOWPATH_AUDIT_KEEP_DAYS</code> <span class="hint">{decided}</span>' in html
    assert ("for ever</td>" in html) == (row["origin"] == "set") and page.data == found


async def test_how_long_things_are_kept_is_for_whoever_operates_the_platform() -> None:
    blind = RecordedApi(**{"/v1/settings/retention": FORBIDDEN})
    assert "platform:operate" in drawn(await settings.retention(asked_of(blind)))


async def test_a_provider_without_a_key_is_told_from_one_that_could_be_asked() -> None:
    def prompt(body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"model_missing": "" if body["model"].startswith("gemini:") else "no key"}

    api = RecordedApi(**{"/v1/networks": {"networks": [{"name": "shop"}]}, "/v1/networks/shop/prompt": prompt})
    page = await providers(asked_of(api))
    states = [row["state"] for row in page.data["providers"]]
    assert states == ["configured", "not configured", "not configured", "not configured"]
    assert drawn(page).count("○</span> not configured") == 3 and drawn(page).count("no key") == 3
    for blind in ({"networks": []}, {"networks": [{"name": "shop"}]}):
        nobody = RecordedApi(**{"/v1/networks": blind, "/v1/networks/shop/prompt": FORBIDDEN})
        assert "is not known" in drawn(await providers(asked_of(nobody)))


async def test_a_model_is_tried_from_its_row_and_what_it_lacks_is_shown_with_the_remedy() -> None:
    found: dict[str, Any] = {
        "model": "google:x", "works": True, "code": "", "detail": "", "remedy": "", "duration_ms": 1_432,
        "usage": {"total_tokens": 23}, "cost": {"usd": 0.00002, "price_known": True},
    }  # fmt: skip
    listed: dict[str, Any] = {"/v1/networks": {"networks": [{"name": "shop"}]}, "/v1/networks/shop/prompt": {}}
    api = RecordedApi({**listed, "/v1/models/check": found})
    page = await check_model(asked_of(api), {"model": " google:x "})
    assert ("POST", "/v1/models/check", {"model": "google:x"}) in api.sent
    html = drawn(page)
    assert "answered" in html and "1,432 ms" in html and "23 tokens" in html and page.data["checked"] == found
    assert html.count('value="google:x"') == 1 and 'value="openai:' in html, "it stands in the row of its provider"
    lacks = {**found, "works": False, "code": "model_unauthorized", "detail": "<b>no</b>", "remedy": "Give a key."}
    html = drawn(await check_model(asked_of(RecordedApi({**listed, "/v1/models/check": lacks})), {"model": "google:x"}))
    assert "did not answer" in html and "&lt;b&gt;no&lt;/b&gt;" in html and "Give a key." in html
    untried = RecordedApi(listed)
    html = drawn(await providers(asked_of(untried)))
    assert "did not answer" not in html and not any(path.endswith("check") for _, path, _ in untried.sent)
    assert html.count('action="/settings/providers"') == 4


async def test_a_key_is_shown_once_and_is_in_no_address() -> None:
    api = RecordedApi(**{"/v1/keys": {**KEY, "key": "twp_aaaaaaaaaaaa.secret", "warnings": ["it makes keys"]}})
    form = {"caller": "ann", "role:viewer": "yes", "scope:runs:read": "yes", "scope:nonsense": "yes", "days": "3"}
    made = await settings.make_key(asked_of(api), form)
    body = {"caller": "ann", "roles": ["viewer"], "scopes": ["runs:read"], "note": "", "expires_in_s": 259_200}
    assert api.sent == [("POST", "/v1/keys", body)]
    assert isinstance(made, Page) and made.refresh_s is None and made.status == 200
    html = drawn(made)
    assert html.count("twp_aaaaaaaaaaaa.secret") == 1 and "it makes keys" in html
    assert '<code id="key">twp_' in html and 'data-copy-of="key"' in html, "copied from where it stands"
    assert "secret" not in str(made.data), "not in the twin either"
    assert not re.search(r'(href|action|content|value)="[^"]*secret', html)


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({}, "choose what it may do, a role or a scope."),
        ({"role:viewer": "yes", "days": "soon"}, "“soon” is no number of days."),
        ({"role:viewer": "yes", "days": "1" * 10}, "“1111111111” is no number of days."),
        ({"role:viewer": "yes"}, "the caller ann is reserved."),
    ],
)
async def test_a_form_by_which_no_key_is_made_keeps_what_was_written(form: dict[str, str], says: str) -> None:
    def listed(given: Mapping[str, Any]) -> Mapping[str, Any]:
        if "roles" in given:
            raise ApiRefusalError(422, {"code": "request_invalid", "detail": "the caller ann is reserved"})
        return {"keys": []}

    written = {"caller": "ann", "note": "the shop's", "scope:nonsense": "yes", **form}
    page = await settings.make_key(asked_of(RecordedApi({"/v1/keys": listed})), written)
    html = drawn(page)
    assert page.status == 422 and f"No key was made: {says}" in html
    assert 'value="ann"' in html and "the shop&#39;s" in html
    assert ('name="role:viewer" value="yes" checked' in html) == ("role:viewer" in form)


async def test_a_key_is_revoked_only_once_somebody_has_confirmed_it() -> None:
    api = RecordedApi()
    with pytest.raises(ApiRefusalError) as refused:
        await settings.revoke_key(asked_of(api, prefix="aaaaaaaaaaaa"), {})
    assert refused.value.problem["errors"] and api.sent == []
    await settings.revoke_key(asked_of(api, prefix="aaaaaaaaaaaa"), {"confirmed": "yes"})
    assert api.sent == [("DELETE", "/v1/keys/aaaaaaaaaaaa", {})]


async def test_the_list_of_keys_has_no_way_to_revoke_what_has_ended() -> None:
    ended = {**KEY, "prefix": "bbbbbbbbbbbb", "revoked_at": "2026-11-26T15:00:00Z"}
    api = RecordedApi(**{"/v1/keys": {"keys": [KEY, ended], "next_after": None}})
    html = drawn(await settings.keys(asked_of(api)))
    assert "/settings/keys/aaaaaaaaaaaa/revoke" in html and "/settings/keys/bbbbbbbbbbbb/revoke" not in html
    assert "<i>ann" not in html
    query = {"caller": "nobody"}
    assert "“nobody”" in drawn(await settings.keys(asked_of(api, query)), query)


async def test_a_switch_is_set_with_its_reason_and_says_what_it_did() -> None:
    done: dict[str, Any] = {"changed": True, "stopping": 2, "switch": SWITCH}
    api = RecordedApi(
        **{
            "/v1/switches/pause": done,
            "/v1/switches/resume": {"changed": False},
            "/v1/switches": {"switches": [SWITCH]},
        }
    )
    form = {"kind": "tool", "name": "crm.*", "reason": "down", "stop_running": "yes"}
    said = await settings.set_switch(asked_of(api, verb="pause"), form)
    assert said.message == "crm.* is paused. 2 running calls are asked to stop."
    assert api.sent[0][2] == {"kind": "tool", "name": "crm.*", "reason": "down", "stop_running": True}
    again = await settings.set_switch(asked_of(api, verb="resume"), {"kind": "project", "reason": "up"})
    assert again.message == "Nothing changed: the project was not paused."
    assert api.sent[1][2] == {"kind": "project", "name": None, "reason": "up"}
    html = drawn(await settings.switches(asked_of(api)))
    assert "crm.*" in html and "<u>down" not in html and "Paused by ann" in html


async def test_a_dead_notice_can_be_sent_again_and_others_can_not() -> None:
    notice = {
        "notice_id": "01a21858-7ec2-7cc8-8fc2-7b5a4728b5fc", "webhook": "ops", "kind": "gate.opened", "status": "dead",
        "gate_id": "b8176244-5c21-5539-9bae-2275585647f8", "tries": 8, "created_at": "2026-11-26T14:00:00Z",
        "due_at": "2026-11-26T14:00:00Z", "error": "<p>500</p>",
    }  # fmt: skip
    api = RecordedApi(**{"/v1/notices": {"notices": [notice, {**notice, "status": "sent"}], "next_before": None}})
    html = drawn(await settings.notices(asked_of(api)))
    assert html.count("/retry") == 1 and "<p>500" not in html
    assert api.asked[0][1] == {"limit": 50, "status": "dead"}
    await settings.retry_notice(asked_of(api, notice_id="n"), {})
    assert api.sent == [("POST", "/v1/notices/n/retry", {})]
