"""The console on a whole platform of one person: read a run, approve a call, follow a page, and who is not let in."""

import asyncio
import html
import json
import re

import httpx2
import pytest
import yaml
from tests.support.console.crowded_pages import too_much_read
from tests.support.gateway.console_runs import closed_gate, dead_letter, finished_run, form, waiting_run
from tests.support.gateway.mail_server import MailServer
from tests.support.gateway.sse import frames
from tests.support.gateway.web import Web
from tests.support.platform.sample_platform import SAMPLE
from tests.support.waiting import eventually

from towpath_audit.proof import verify_proof
from towpath_audit.verifier import verify
from towpath_console.pages import PAGES
from towpath_contracts.canonical import digest
from towpath_embedded.platform import Platform

pytestmark = pytest.mark.asyncio(loop_scope="module")

BATCH = "?tool=orders.refund&rule=refunds-over-100"
HTML = {"Accept": "text/html"}


async def test_the_person_of_this_machine_may_do_everything(browser: httpx2.AsyncClient) -> None:
    me = (await browser.get("/v1/me")).json()
    assert (me["caller"], me["project"], me.get("key"), me["signed_in_by"]) == ("local", "default", None, "machine")
    page = (await browser.get("/")).text.replace("disabled hidden", "hidden")  # a form's, where a call waits already
    assert "disabled" not in page and ">local</bdi>" in page
    assert 'action="/sign-out"' not in page, "the link counted once: nobody is locked out of their own machine"
    assert (await form(browser, "/sign-in", key="x")).status_code == 401


async def test_every_page_is_html_and_has_a_twin_in_json(browser: httpx2.AsyncClient) -> None:
    run_id, gate = await waiting_run(browser)
    entry_id = (await browser.get("/v1/audit?limit=1")).json()["entries"][0]["entry_id"]
    known = {"run_id": run_id, "gate_id": gate["gate_id"], "step": 1, "network": "support", "tool": "orders.refund"}
    known |= {"version": 1, "entry_id": entry_id, "worker_id": "0" * 32}
    asked = await form(browser, "/audit/erasures", kind="payloads", caller="nobody", reason="request 4711")
    known["erasure_id"] = asked.headers["location"].partition("?")[0].rpartition("/")[2]
    questions = {"/runs/compare": f"?a={run_id}&b={run_id}", "/approvals/batch": BATCH}
    for route in PAGES:
        if "{letter_id}" in route.path:
            continue  # has its own test
        path = route.path.replace(":path}", "}").format_map(known)
        asked = questions.get(route.path, "")
        page, twin = (
            await browser.get(path + asked),
            await browser.get(f"{path if path != '/' else '/runs'}.json{asked}"),
        )
        assert page.status_code == 200 and page.text.startswith("<!doctype html>"), (path, page.text[:300])
        assert len(page.content) < 250_000
        assert "default-src 'none'" in page.headers["content-security-policy"]
        assert twin.headers["content-type"] == "application/json" and twin.json()
    assert run_id in (await browser.get("/runs")).text
    assert "refunds-over-100" in (await browser.get("/approvals")).text
    withdrawn = await form(browser, f"/audit/erasures/{known['erasure_id']}/withdraw")
    assert "withdrawn" in withdrawn.headers["location"]


async def test_a_call_is_approved_in_the_page_and_the_run_goes_on(browser: httpx2.AsyncClient) -> None:
    run_id, gate = await waiting_run(browser)
    decided = await form(
        browser, f"/approvals/{gate['gate_id']}/approve", reason="looked at it", back=f"/runs/{run_id}"
    )
    assert (decided.status_code, decided.headers["location"]) == (303, f"/runs/{run_id}?message=Approved.")
    run = (await browser.get(f"/v1/runs/{run_id}", headers={"Prefer": "wait=60"})).json()
    for _ in range(1_200):
        if run["status"] == "completed":
            break
        await asyncio.sleep(0.05)
        run = (await browser.get(f"/v1/runs/{run_id}")).json()
    page = (await browser.get(f"/runs/{run_id}")).text
    assert "completed" in page and run["final"]["message"] in page


async def test_a_call_is_denied_with_a_reason(browser: httpx2.AsyncClient) -> None:
    _, gate = await waiting_run(browser)
    assert (await form(browser, f"/approvals/{gate['gate_id']}/deny", reason="too much")).status_code == 303
    closed = await closed_gate(browser, gate["gate_id"])
    assert (closed["verdict"], closed["closed_reason"]) == ("denied", "too much")
    again = await form(browser, f"/approvals/{gate['gate_id']}/approve", reason="after all")
    assert again.status_code == 409 and "local closed it" in again.text and "too much" in again.text, "it is stale"


async def test_an_open_page_is_sent_what_changes_and_goes_on_where_its_stream_was_cut(
    browser: httpx2.AsyncClient,
) -> None:
    run_id, gate = await waiting_run(browser)
    page = (await browser.get(f"/runs/{run_id}")).text
    address = html.unescape(page.partition('hx-sse:connect="')[2].partition('"')[0])
    await form(browser, f"/approvals/{gate['gate_id']}/approve", reason="ok")
    async with asyncio.timeout(60), browser.stream("GET", address) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        async for frame in frames(stream):
            assert frame.id is None or f'id="gate-{gate["gate_id"]}"' not in frame.data, "what the page has is not sent"
            if frame.id and "are on their way back" in frame.data:
                break
        last = frame.id or ""
    async with asyncio.timeout(60), browser.stream("GET", address, headers={"Last-Event-ID": last}) as stream:
        rest = [frame async for frame in frames(stream)]
    assert [frame.event for frame in rest if frame.data and frame.id != last] == ["live", "end"], (
        "nothing is sent twice"
    )


async def test_a_run_is_read_by_its_tabs_and_taken_along_as_files(browser: httpx2.AsyncClient) -> None:
    run_id = await finished_run(browser)
    graph = await browser.get(f"/runs/{run_id}/graph.txt")
    assert "triage [starts] (1 step)" in graph.text and "→ billing 1" in graph.text
    log = await browser.get(f"/runs/{run_id}/events.jsonl")
    seqs = [json.loads(line)["seq"] for line in log.text.splitlines()]
    assert seqs == list(range(1, len(seqs) + 1)) and "attachment" in log.headers["content-disposition"]
    step = (await browser.get(f"/runs/{run_id}/steps/3?tab=policy")).text
    assert "approval.approved" in step and "condition yes: args.amount &gt; 100" in step
    history = (await browser.get(f"/v1/runs/{run_id}/history?limit=2")).json()
    assert ([one["step_number"] for one in history["steps"]], history["next_after_step"]) == ([1, 2], 2)
    calls = (await browser.get(f"/v1/runs/{run_id}/steps/2/model-calls")).json()["calls"]
    assert [call["step_number"] for call in calls] == [2]
    forked = await form(browser, f"/runs/{run_id}/fork", from_step="4")
    other = forked.headers["location"].removeprefix("/runs/").partition("?")[0]
    compared = await browser.get(f"/runs/compare?a={run_id}&b={other}")
    assert compared.status_code == 200 and run_id[:13] in compared.text and other[:13] in compared.text


async def test_many_runs_are_cancelled_after_they_were_counted(browser: httpx2.AsyncClient) -> None:
    run_ids = {(await waiting_run(browser))[0] for _ in range(2)}
    counted = (await browser.get("/runs/cancel.json?status=waiting&network=support")).json()
    assert run_ids <= set(counted["runs"]) and counted["count"] == len(counted["runs"])
    assert (await browser.get(f"/v1/runs/{min(run_ids)}")).json()["status"] == "waiting", "counting changes nothing"
    done = await form(browser, "/runs/cancel", ids=",".join(run_ids), reason="flood", back="/runs")
    assert "2%20of%202%20runs%20are%20being%20cancelled" in done.headers["location"]
    for run_id in run_ids:
        assert (await browser.get(f"/v1/runs/{run_id}", headers={"Prefer": "wait=60"})).json()["status"] == "cancelled"


async def test_an_entry_is_proved_from_the_list_and_the_files_hold_without_the_platform(
    browser: httpx2.AsyncClient,
) -> None:
    run_id, _ = await waiting_run(browser)
    listed = (await browser.get(f"/audit?run_id={run_id}&verdict=require_approval")).text
    (path,) = set(re.findall(r'href="(/audit/entries/\d+)#proof"', listed))
    note = (await browser.get("/audit/checkpoint/note")).text
    key = (await browser.get("/audit/checkpoint/key")).text.strip()
    held = await browser.get(path, params={"kept": note, "key": key})
    assert "This entry stands in the signed log, unchanged" in held.text
    assert "The checkpoint that you kept has the same root" in held.text
    file = await browser.get(f"{path}/proof", params={"kept": note})
    report = verify_proof(file.text, checkpoints=[note], keys=[key])
    assert (report.faults, report.notes, len(report.figures["proved"])) == ([], [], 1)
    assert (await browser.get(f"{path}.json")).json()["steps"]["leaf"] == report.figures["proved"][0]["leaf"]
    first = (await browser.get("/v1/audit?phase=policy.applied&limit=1")).json()["entries"][0]
    assert "unchanged" in (await browser.get(f"/audit/entries/{first['entry_id']}")).text, "also what is of no run"
    explained = (await browser.get(f"/policy/decision?id={path.rpartition('/')[2]}")).text
    assert "The rule, as it stood then" in explained and "How each rule is weighed" in explained
    for span in ("all", "last"):
        assert "fit" in (await form(browser, "/audit/verify", span=span)).headers["location"]
    assert "entries of the log fit" in (await browser.get("/audit/verify")).text, "the browser keeps what was verified"
    bundle = await browser.get("/audit/export/towpath-audit.jsonl")
    assert "attachment" in bundle.headers["content-disposition"]
    assert verify(bundle.text.splitlines(), checkpoints=[note], keys=[key]).faults == []
    assert (await browser.get("/audit/entries/999999999")).status_code == 404


async def test_a_policy_is_asked_compared_weighed_and_rolled_back(browser: httpx2.AsyncClient) -> None:
    await waiting_run(browser)
    args = '{"order_id": "8812", "amount": 129, "reason": "broken"}'
    query = {"network": "support", "agent": "billing", "tool": "orders.refund", "args": args}
    asked = (await browser.get("/policy/simulate", params=query)).text
    assert "refunds-over-100" in asked and "condition yes: args.amount &gt; 100" in asked
    cells = (await browser.get("/policy.json?network=support&tool=orders.refund")).json()["tools"][0]["cells"]
    assert [(one["agent"], one["words"]) for one in cells if one["conditional"]] == [("billing", ["allow", "ask"])]
    compared = await form(browser, "/policy/compare", text="kind: Policy\r\nrules: []\r\n")
    assert compared.status_code == 200 and "newly denied" in compared.text
    assert (await form(browser, "/policy/shadow/set", text="kind: Policy\nrules: []\n")).status_code == 303
    assert "weighs live calls" in (await browser.get("/policy/shadow")).text
    assert (await form(browser, "/policy/shadow/end", note="seen")).status_code == 303
    before = (await browser.get("/v1/policy")).json()
    written = {"text": "kind: Policy\r\nrules: []\r\n", "base": str(before["version"])}
    assert "would change" in (await form(browser, "/policy/edit/check", **written)).text
    stale = await form(browser, "/policy/edit", **(written | {"base": "9999", "note": "r"}))
    assert stale.status_code == 409 and (await browser.get("/v1/policy")).json() == before
    text = before["text"].replace("args.amount > 100", "args.amount > 100.0")
    assert (await browser.post("/v1/policy", json={"text": text})).is_success
    assert "altered" in (await browser.get(f"/policy/versions/{before['version'] + 1}")).text
    path = f"/policy/versions/{before['version']}/roll-back"
    assert (await form(browser, path, note="", if_version="1")).status_code == 422
    stale = await form(browser, path, note="too strict", if_version=str(before["version"]))
    assert stale.status_code == 409, "the policy has moved since that page was made"
    done = await form(browser, path, note="too strict", if_version=str(before["version"] + 1))
    assert done.status_code == 303
    assert (await browser.get("/v1/policy")).json()["text"] == before["text"]


async def test_a_form_of_another_site_changes_nothing(browser: httpx2.AsyncClient) -> None:
    _, gate = await waiting_run(browser)
    path = f"/approvals/{gate['gate_id']}/approve"
    for headers in ({}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
        refused = await browser.post(path, data={"reason": "x"}, headers=headers)
        assert refused.status_code == 403, headers
    assert (await browser.get(f"/v1/gates/{gate['gate_id']}")).json()["status"] == "pending"


async def test_a_stranger_sees_nothing_but_how_to_get_in(platform: Platform, browser: httpx2.AsyncClient) -> None:
    run_id, _ = await waiting_run(browser)
    async with httpx2.AsyncClient(base_url=platform.gateway_url, headers=HTML, timeout=60) as stranger:
        for path in ("/", "/runs", f"/runs/{run_id}", "/approvals", "/sign-in?token=wrong"):
            page = await stranger.get(path)
            assert page.status_code == 401 and "What to do" in page.text, path
            assert run_id not in page.text and "support" not in page.text
        style = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        assert (await stranger.get(style)).headers["content-type"].startswith("text/css"), "the page has its style"
        live = await stranger.get(f"/console/live?page=/runs/{run_id}")
        assert live.status_code == 401
        twin = await stranger.get("/runs.json", headers={"Accept": "application/json"})
        assert (twin.status_code, twin.json()["code"]) == (401, "unauthenticated")


async def test_the_box_of_the_first_page_starts_a_run(browser: httpx2.AsyncClient) -> None:
    refused = await form(browser, "/runs", network="support", message="Where is it?", model="gemini:x")
    assert refused.status_code == 409 and "export GEMINI_API_KEY=…" in refused.text, "said before anything is sent"
    started = await form(browser, "/runs", network="support", message="Where is my order?")
    assert started.status_code == 303 and started.headers["location"].startswith("/runs/")
    refused = await form(browser, "/runs", network="nobody", message="x")
    assert refused.status_code in {404, 422} and "nobody" in refused.text
    assert (await browser.get("/nothing")).json()["code"] == "not_found"
    assert "There is no such page" in (await browser.get("/runs/x/nothing")).text


async def test_a_call_is_changed_in_a_form_and_what_is_wrong_stands_beside_its_field(
    browser: httpx2.AsyncClient,
) -> None:
    run_id, gate = await waiting_run(browser)
    path = f"/approvals/{gate['gate_id']}"
    page = (await browser.get(path)).text
    assert all(words in page for words in ("looks at large refunds", "args.amount &gt; 100", gate["detail"]["digest"]))
    assert page.index("nobody said it; the model wrote it") < page.index("said by the task"), "doubts come first"
    fields = {"arg.order_id": "8812", "arg.amount": "-1", "arg.reason": "broken", "digest": gate["detail"]["digest"]}
    wrong = await form(browser, f"{path}/edit", **fields)
    assert wrong.status_code >= 400 and 'id="fault-' in wrong.text and 'value="-1"' in wrong.text
    changed = await form(browser, f"{path}/edit", **(fields | {"arg.amount": "64.5"}), reason="half of it")
    assert changed.headers["location"].startswith("/approvals?message=Changed"), changed.text
    stale = await form(browser, f"{path}/approve", digest=gate["detail"]["digest"], reason="fine by me")
    assert stale.status_code == 409 and "Nothing was decided by you" in stale.text and "fine by me" in stale.text
    for _ in range(1_200):
        calls = (await browser.get(f"/v1/audit?run_id={run_id}&tool=orders.refund")).json()["entries"]
        if any(call["phase"] == "approval.edited" for call in calls):
            break
        await asyncio.sleep(0.05)
    assert any(call["phase"] == "approval.edited" for call in calls), "the audit knows who changed it"
    *_, decision = [call["entry_id"] for call in calls if call["phase"] == "decision"]
    for _ in range(1_200):
        told = (await browser.get(f"/policy/decision.json?id={decision}")).json()
        if told["changed"]:
            break
        await asyncio.sleep(0.05)
    assert "amount" in told["changed"] and told["call"]["args"]["amount"] == 64.5, told
    assert digest(told["about"]) == told["decided"]["args_digest"], "what was asked about is told from what ran"


async def test_several_calls_of_a_rule_are_decided_together_and_come_back_as_what_was_decided_before(
    browser: httpx2.AsyncClient,
) -> None:
    gates = [(await waiting_run(browser))[1] for _ in range(2)]
    listed = (await browser.get("/approvals/batch?tool=orders.refund&rule=refunds-over-100")).text
    assert all(f"gate-{gate['gate_id']}" in listed for gate in gates)
    assert "Decide them together" in (await browser.get("/approvals?rule=refunds-over-100")).text
    chosen = {f"gate-{gate['gate_id']}": "on" for gate in gates}
    digests = {f"digest-{gate['gate_id']}": gate["detail"]["digest"] for gate in gates}
    task = {"tool": "orders.refund", "rule": "refunds-over-100", "reason": "not this week"}
    done = await form(browser, "/approvals/batch/deny", **chosen, **digests, **task)
    assert done.headers["location"] == "/approvals?message=2%20denied.", done.text
    assert "not this week" in (await browser.get("/approvals?status=denied&rule=refunds-over-100&network=support")).text
    _, waits = await waiting_run(browser)
    before = (await browser.get(f"/approvals/{waits['gate_id']}")).text
    assert before.count("not this week") >= 2 and "Decided before" in before


async def test_a_notice_of_a_gate_leads_to_its_page(
    browser: httpx2.AsyncClient, receiver: Web, mails: MailServer
) -> None:
    _, gate = await waiting_run(browser)
    link = f"Decide here: {browser.base_url}/approvals/{gate['gate_id']}"

    def told(path: str) -> list[bytes]:
        return [one.body for one in receiver.asked if one.path == path and gate["gate_id"].encode() in one.body]

    await eventually(lambda: any(link in mail.get_content() for mail in mails.received) and bool(told("/chat")))
    await eventually(lambda: bool(told("/h")))
    assert link in json.loads(told("/chat")[0])["text"]
    page = (await browser.get("/settings/notices?status=sent")).text
    assert "mia" in page and "TOWPATH_CONSOLE_URL" not in page
    notices = [json.loads(notice)["data"] for notice in told("/h")]
    (url,) = {notice["url"] for notice in notices if notice["gate_id"] == gate["gate_id"]}
    assert url.startswith(str(browser.base_url)) and "orders.refund" in (await browser.get(url)).text


async def test_a_network_is_checked_published_compared_and_published_again(browser: httpx2.AsyncClient) -> None:
    spec = yaml.safe_load((SAMPLE / "network.yaml").read_text()) | {"name": "team/desk"}
    bad = yaml.safe_dump(spec | {"agents": [agent | {"is_default": False} for agent in spec["agents"]]})
    refused = await form(browser, "/networks/check", text=bad)
    assert refused.status_code == 422 and "no agent begins" in refused.text and "kind: Network" in refused.text
    checked = await form(browser, "/networks/check", text=yaml.safe_dump(spec))
    assert "Publish version 1" in checked.text and (await browser.get("/v1/networks/team/desk")).status_code == 404
    for steps in (7, 8):
        made = await form(browser, "/networks", text=yaml.safe_dump(spec | {"max_steps": steps}))
        assert (made.status_code, made.headers["location"].partition("?")[0]) == (303, "/networks/team/desk")
    versions = await browser.get("/networks/team/desk?tab=versions")
    assert "From version 1 to version 2" in versions.text and "max_steps" in versions.text
    prompt = await browser.get("/networks/team/desk?tab=prompts&agent=tech&task=Where+is+it")
    assert "You are tech" in prompt.text and "Where is it" in prompt.text
    await form(browser, "/networks/team/desk/publish", version="1")
    now = (await browser.get("/v1/networks/team/desk")).json()
    assert (now["version"], now["snapshot"]["max_steps"]) == (3, 7)
    started = await form(browser, "/networks/team/desk/run", message="hello", version="2")
    run = (await browser.get(f"/v1{started.headers['location'].partition('?')[0]}")).json()
    assert (run["network"], run["version"]) == ("team/desk", 2)


async def test_a_tool_is_switched_off_and_on_with_a_reason(browser: httpx2.AsyncClient) -> None:
    assert "orders.find" in (await browser.get("/tools?q=look&effect=pure")).text
    assert (await browser.get("/tools/nobody.offers")).status_code == 404
    off = await form(browser, "/tools/orders.find/switch/pause", reason="the shop moves")
    assert off.status_code == 303 and off.headers["location"].startswith("/tools/orders.find?message=")
    page = (await browser.get("/tools/orders.find")).text
    assert "the shop moves" in page and "Switch orders.find on" in page
    assert (await form(browser, "/tools/orders.find/switch/resume", reason="")).status_code == 400, "without a reason"
    await form(browser, "/tools/orders.find/switch/resume", reason="it has moved")
    assert not (await browser.get("/v1/switches")).json()["switches"]


async def test_a_dead_letter_is_read_as_text_and_settled_in_the_page(
    platform: Platform, browser: httpx2.AsyncClient
) -> None:
    letter = await dead_letter(platform, browser, b'{"network": "<script>alert(1)</script>", "user_message": 7}')
    page = f"/queues/{letter['dead_letter_id']}"
    assert "&lt;script&gt;" in (await browser.get(page)).text and "<script>alert" not in (await browser.get(page)).text
    queues = (await browser.get("/queues")).text
    assert f'href="{page}"' in queues and "exec_default=support" in queues and "not known" not in queues
    assert (await form(browser, f"{page}/discard", reason=" ")).status_code == 400
    assert (await form(browser, f"{page}/discard", reason="made by a test")).headers["location"].startswith(page)
    assert (
        "made by a test" in (await browser.get(page)).text
        and f'href="{page}"' not in (await browser.get("/queues")).text
    )


async def test_keys_budgets_and_switches_are_set_in_the_pages(browser: httpx2.AsyncClient) -> None:
    made = await form(browser, "/settings/keys", caller="ann", **{"role:viewer": "yes"})
    [key] = re.findall(r"twp_[a-z0-9]{12}\.[\w-]{43}", made.text)
    assert made.status_code == 200 and key not in (await browser.get("/settings/keys")).text
    revoke = f"/settings/keys/{key[4:16]}/revoke"
    assert (await form(browser, revoke)).status_code == 422, "only who confirms it ends a key"
    assert (await form(browser, revoke, confirmed="yes")).status_code == 303
    assert (await browser.get("/v1/keys")).json()["keys"][-1]["revoked_at"]
    assert (await form(browser, "/costs/budgets", kind="caller", name="ann", usd="2.5")).status_code == 303
    assert "$2.50" in (await browser.get("/costs")).text
    switch = {"kind": "tool", "name": "crm.*", "reason": "the vendor is down"}
    assert (await form(browser, "/settings/switches/pause", **switch)).status_code == 303
    assert "the vendor is down" in (await browser.get("/settings/switches")).text
    assert (await form(browser, "/settings/switches/resume", **switch)).status_code == 303
    assert "Nothing is paused" in (await browser.get("/settings/switches")).text


async def test_a_problem_code_is_a_page_for_browsers_and_json_for_others(browser: httpx2.AsyncClient) -> None:
    page, data = [
        await browser.get("/problems/forbidden", headers={"Accept": kind}) for kind in ("text/html,*/*", "*/*")
    ]
    assert page.text.startswith("<!doctype html>") and data.json()["code"] == "forbidden"
    assert page.headers["vary"] == data.headers["vary"] == "Accept" and data.json()["remedy"] in page.text
    told = (await browser.get("/v1/settings")).json()["settings"]
    assert {one["value"] for one in told if one["secret"]} <= {"hidden", None}
    audit = (await browser.get("/v1/settings/retention")).json()["periods"][0]
    assert (audit["name"], audit["kept_s"], audit["origin"]) == ("audit", 365 * 86_400, "default")


async def test_labels_workers_and_costs_are_those_of_the_platform(browser: httpx2.AsyncClient) -> None:
    run_id = await finished_run(browser)
    bulk = {"action": "label", "run_ids": [run_id], "labels": {"case": "4711"}}
    assert (await browser.post("/v1/runs/bulk", json=bulk)).json()["done"] == 1
    runs = (await browser.get("/v1/runs?label=case%3D4711")).json()["runs"]
    assert [run["run_id"] for run in runs] == [run_id]
    [worker] = (await browser.get("/v1/workers")).json()["workers"]
    assert f"/workers/{worker['worker_id']}/drain" in (await browser.get("/workers")).text
    for _ in range(600):  # history follows the run
        if "support/" in (costs := (await browser.get("/v1/costs?by=agent")).text):
            break
        await asyncio.sleep(0.1)
    assert "support/" in costs


async def test_no_statement_of_a_page_reads_a_table_that_grows(platform: Platform, browser: httpx2.AsyncClient) -> None:
    wrong = await too_much_read(platform, browser)  # at last: it fills the database
    assert wrong == [], "\n".join(wrong)
