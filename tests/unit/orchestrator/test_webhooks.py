"""Who is notified of gates, how a notice is signed and what it has (standardwebhooks.com)."""

import base64
import hashlib
import hmac
import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.docs_site.taken_blocks import taken

from towpath_orchestrator.adapters.webhooks import load_webhooks, secret_bytes, signed_headers
from towpath_orchestrator.core.webhook_notices import (
    MAX_BACKLOG,
    RETRY_S,
    Webhook,
    new_notices,
    notice_body,
    status_after_try,
)

KEY = b"k" * 24
SECRET = "whsec_" + base64.b64encode(KEY).decode()
AT = datetime(2026, 11, 22, 12, tzinfo=UTC)


def hook(name: str = "ops", **more: Any) -> Webhook:
    fields = {"url": "https://x.example/h", "secrets": (KEY,), "projects": ("*",), "kinds": ("gate.opened",), **more}
    return Webhook(name=name, **fields)


def gate(status: str = "pending", noticed: str = "", **detail: Any) -> dict[str, Any]:
    fields = {"tool": "orders.refund", "args": {"card": "4111"}, "agent": "billing", "rule": "large", **detail}
    closed = {"closed_at": AT, "closed_by": "paula", "verdict": status} if status != "pending" else {}
    return {
        "gate_id": UUID(int=1),
        "run_id": UUID(int=2),
        "project": "shop",
        "network": "support",
        "gate_type": "approval",
        "status": status,
        "reason": "somebody looks",
        "detail": json.dumps(fields),
        "opened_at": AT,
        "expires_at": AT,
        "closed_at": None,
        "closed_by": "",
        "verdict": "",
        "noticed": noticed,
        "trace": None,
        **closed,
    }


def write(folder: Path, text: str) -> Path:
    file = folder / "webhooks.yaml"
    file.write_text(text)
    return file


def test_the_signature_is_that_of_the_specifications_own_example() -> None:
    secret = secret_bytes("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    body = b'{"test": 2432232314}'
    headers = signed_headers(hook(secrets=(secret,)), "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body)
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_every_secret_signs_so_that_one_can_be_changed_without_a_gap() -> None:
    other = b"o" * 32
    headers = signed_headers(hook(secrets=(KEY, other)), "msg_1", 7, b"{}")
    wanted = [base64.b64encode(hmac.digest(key, b"msg_1.7.{}", hashlib.sha256)).decode() for key in (KEY, other)]
    assert headers["webhook-signature"].split() == [f"v1,{one}" for one in wanted]


def test_a_file_names_receivers_and_where_their_secrets_are(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{SECRET}\n")
    text = f"""
webhooks:
  - {{name: ops, url: "https://x.example/h", secret: "env:HOOK", projects: ["shop*"]}}
  - {{name: here, url: "http://127.0.0.1:1/h", secret: ["file:{tmp_path}/key", "env:HOOK"],
     kinds: [gate.closed], format: cloudevents}}
"""
    ops, here = load_webhooks(write(tmp_path, text), {"HOOK": "plain text that is long enough"})
    assert (here.secrets[0], len(here.secrets)) == (KEY, 2)
    assert (ops.format, here.format) == ("standard", "cloudevents")
    assert ops.wants("shop-1", "gate.opened") and not ops.wants("other", "gate.opened")
    assert here.wants("other", "gate.closed") and not here.wants("other", "gate.opened")
    assert "plain text" not in repr(ops)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('name: a, url: "http://x.example/", secret: "env:HOOK"', "not https"),
        ('name: a, url: "ftp://x.example/", secret: "env:HOOK"', "needs https"),
        ('name: a, url: "https://u:p@x.example/", secret: "env:HOOK"', "no user"),
        ('name: a, url: "https://x.example/", secret: "env:NONE"', "is not set"),
        ('name: a, url: "https://x.example/", secret: "file:/no/such"', "can't be read"),
        ('name: a, url: "https://x.example/", secret: "hunter2hunter2hunter2hunter2"', "env:NAME or file:PATH"),
        ('name: a, url: "https://x.example/", secret: "env:SHORT"', "fewer than 24"),
        ('name: a, url: "https://x.example/", secret: "env:BAD"', "not base64"),
        ('name: a, url: "https://x.example/", secret: "env:HOOK", sercet: 1', "sercet"),
        ('name: a, url: "https://x.example/", secret: "env:HOOK", format: cloudevent', "format"),
        ('name: A!, url: "https://x.example/", secret: "env:HOOK"', "name"),
    ],
)
def test_a_wrong_file_is_refused_without_telling_a_secret(tmp_path: Path, entry: str, expected: str) -> None:
    environment = {"HOOK": SECRET, "SHORT": "tiny-secret", "BAD": "whsec_!!"}
    with pytest.raises(ValueError, match=expected) as caught:
        load_webhooks(write(tmp_path, f"webhooks: [{{{entry}}}]"), environment)
    for secret in ("hunter2", "tiny-secret", "whsec_!!", SECRET):
        assert secret not in str(caught.value)
    with pytest.raises(ValueError, match="can't be read"):
        load_webhooks(tmp_path / "none.yaml", {})


def test_a_notice_names_the_call_and_never_its_arguments() -> None:
    notice = json.loads(notice_body(gate(quorum=2), "gate.opened"))
    assert (notice["type"], notice["data"]["tool"], notice["data"]["quorum"]) == ("gate.opened", "orders.refund", 2)
    assert "4111" not in json.dumps(notice)
    closed = json.loads(notice_body(gate("denied"), "gate.closed"))
    assert (closed["data"]["verdict"], closed["data"]["closed_by"]) == ("denied", "paula")


def test_a_notice_is_as_the_page_shows_it() -> None:
    shown = json.loads(taken('docs/approvals.md: {"type": "gate.opened"').text)
    sent = json.loads(notice_body(gate(quorum=2), "gate.opened", "https://towpath.example.com"))
    assert (sent.keys(), sent["data"].keys()) == (shown.keys(), shown["data"].keys())
    for name, value in {**shown, **shown["data"], "data": sent["data"]}.items():
        begin = value.partition("…")[0].removesuffix("7c1e") if isinstance(value, str) else ""
        found = {**sent, **sent["data"]}[name]
        assert str(found).startswith(begin) if "…" in str(value) else found == value, name


@pytest.mark.parametrize("console", ["https://towpath.example.com", "https://towpath.example.com/"])
def test_a_notice_leads_to_its_gate_in_the_console_where_there_is_one(console: str) -> None:
    for kind in ("gate.opened", "gate.closed"):
        data = json.loads(notice_body(gate("denied"), kind, console))["data"]
        assert data["url"] == f"https://towpath.example.com/approvals/{data['gate_id']}"
        assert "url" not in json.loads(notice_body(gate("denied"), kind))["data"]


def test_a_notice_of_a_doubt_leaves_out_what_a_tool_reported_of_its_failure() -> None:
    doubt = {**gate(), "gate_type": "unknown_effect", "reason": "nobody knows whether pay happened: card 4111 refused"}
    notice = json.loads(notice_body(doubt, "gate.opened"))
    assert notice["data"]["reason"] == "nobody knows whether orders.refund happened"
    assert "4111" not in json.dumps(notice)


@pytest.mark.parametrize(
    ("gate_type", "reason"),
    [
        ("loop_detected", "the same error again and again: orders_down:no order of card 4111 for ann miller"),
        ("permission", "billing may not use orders.refund, and nothing else was found: card '4111' is not trusted"),
        ("manual", "Which account is 4111?"),
    ],
)
def test_a_notice_of_a_runs_own_gate_has_no_words_of_tools_models_or_people(gate_type: str, reason: str) -> None:
    asks = {**gate(rule=None), "gate_type": gate_type, "reason": reason}
    notice = json.loads(notice_body(asks, "gate.opened"))
    assert notice["data"]["reason"] == f"the run asks a person: {gate_type}"
    assert "4111" not in json.dumps(notice)
    for told in ({"gate_type": "manual"}, {"gate_type": "budget", "reason": "80 % are spent"}):
        of_rule = {**gate(), **told}
        assert json.loads(notice_body(of_rule, "gate.opened"))["data"]["reason"] == of_rule["reason"]


def test_nobody_is_notified_of_gates_that_only_a_switch_opens() -> None:
    both = hook(kinds=("gate.opened", "gate.closed"))
    waiting: Counter[str] = Counter()
    held = {"gate_type": "paused"}
    assert new_notices({**gate(), **held}, (both,), waiting) == []
    assert new_notices({**gate("settled", "pending"), **held}, (both,), waiting) == []
    assert not waiting, "what is not sent leaves room for what is"


def test_each_gate_owes_each_webhook_one_notice_of_each_kind() -> None:
    both = hook(kinds=("gate.opened", "gate.closed"))
    waiting: Counter[str] = Counter()
    assert [one.kind for one in new_notices(gate(), (both,), waiting)] == ["gate.opened"]
    assert [one.kind for one in new_notices(gate("denied", "pending"), (both,), waiting)] == ["gate.closed"]
    quick = new_notices(gate("denied"), (both, hook("other")), waiting)
    assert [(one.webhook, one.kind) for one in quick] == [
        ("ops", "gate.opened"),
        ("other", "gate.opened"),
        ("ops", "gate.closed"),
    ]
    again = new_notices(gate("denied"), (both, hook("other")), waiting)
    assert [one.notice_id for one in again] == [one.notice_id for one in quick], "sent again under the same id"


def test_a_full_backlog_says_so_instead_of_growing() -> None:
    waiting = Counter({"ops": MAX_BACKLOG})
    (made,) = new_notices(gate(), (hook(),), waiting)
    assert (made.status, made.error) == ("dead", "the backlog is full")


def test_tries_end_and_the_receiver_can_end_them() -> None:
    waits = [status_after_try(tries, taken=False, gone=False) for tries in range(1, len(RETRY_S) + 2)]
    assert waits == [*(("pending", float(wait)) for wait in RETRY_S), ("dead", 0.0)]
    assert status_after_try(1, taken=False, gone=True) == ("dead", 0.0)
    assert status_after_try(99, taken=True, gone=False) == ("sent", 0.0)
    assert status_after_try(99, taken=False, gone=False, obsolete=True) == ("obsolete", 0.0), "it did not fail"
