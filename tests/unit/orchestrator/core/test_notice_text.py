"""What e-mails and messages in chats say of a gate, and that nobody who wrote a part of it can say more."""

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiosmtplib import SMTP, SMTPRecipientRefused, SMTPRecipientsRefused, SMTPResponseException

from towpath_orchestrator.adapters.notice_posts import mail, send_mail
from towpath_orchestrator.adapters.notice_targets import ChatChannel, Mailbox, MailServer, load_receivers
from towpath_orchestrator.core.notice_text import (
    LEFT_OUT,
    NoticeText,
    chat_message,
    mail_body,
    notice_text,
)

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
SERVER = MailServer(host="127.0.0.1", port=25, tls="none", user=None, password=None, sender="towpath@shop.example")
MAILBOX = Mailbox(name="mia", projects=("*",), shows_arguments=True, address="mia@shop.example", server=SERVER)
CONSOLE = "https://towpath.example.com/"
HOSTILE = "\u202e<!here> <https://evil.example|Go> @everyone ```\r\nBcc: eve@evil.example *now*"


def text(console_url: str = CONSOLE, gate_type: str = "approval", *, shows: bool = True, **detail: Any) -> NoticeText:
    gate = {
        "gate_id": UUID(int=1),
        "run_id": UUID(int=2),
        "project": "shop",
        "network": "support",
        "gate_type": gate_type,
        "reason": "somebody looks",
        "approval_id": UUID(int=3) if gate_type == "approval" else None,
        "expires_at": AT,
    }
    fields = {"tool": "orders.refund", "rule": "large", "agent": "billing", "args": {"amount": 129}, **detail}
    return notice_text(gate, fields, console_url, shows_arguments=shows)


def test_a_text_says_what_is_asked_by_which_rule_until_when_and_where_it_is_decided() -> None:
    body = mail_body(text())
    assert body.startswith(
        f"A call waits for approval.\n\nDecide here: https://towpath.example.com/approvals/{UUID(int=1)}\n"
    )
    for line in ("Tool:     orders.refund", "Rule:     large", "Why:      somebody looks", f"Run:      {UUID(int=2)}"):
        assert line in body
    assert "Until:    2026-11-22 12:00 UTC; then it is denied" in body and "> amount = 129" in body
    assert text().subject == "A call waits for approval: orders.refund (rule large)"


def test_a_call_is_told_in_the_words_of_its_tool_where_its_arguments_may_be() -> None:
    assert "Call:     Refund 129 EUR" in mail_body(text(summary="Refund {amount} EUR"))
    assert "129" not in mail_body(text(summary="Refund {amount} EUR", shows=False))


def test_a_value_that_no_message_can_carry_is_told_with_a_mark_in_its_place() -> None:
    said = text(args={"note\ud800": "a\udfffb"})
    assert "a?b" in json.dumps(chat_message(said), ensure_ascii=False).encode().decode()


def test_without_the_address_of_the_console_the_link_is_left_out() -> None:
    for said in (mail_body(text("")), chat_message(text(""))["text"]):
        assert "http" not in said and f"towpath gates show {UUID(int=1)}" in said


@pytest.mark.parametrize("place", ["tool", "rule", "agent", "args"])
def test_what_others_wrote_adds_no_line_no_header_no_link_and_no_mention(place: str) -> None:
    said = text(**{place: {HOSTILE: HOSTILE} if place == "args" else HOSTILE})
    message = mail(MAILBOX, "msg_1", said, AT)
    raw = message.as_bytes()
    assert set(message.keys()) >= {"From", "To", "Subject", "Date", "Message-ID"} and message["Bcc"] is None
    assert message["Message-ID"] == "<msg_1@shop.example>" and b"\nBcc:" not in raw.split(b"\r\n\r\n")[0]
    body = message.get_content()
    assert not any(line.startswith("Bcc") for line in body.splitlines())
    assert "evil.example" not in body and "https[://]evil[.]example" in body
    assert "https://evil" not in body and "\u202e" not in body and "⟨U+202E⟩" in body
    posted = chat_message(said)
    for whole in (posted["text"], posted["blocks"][1]["text"]["text"]):
        code = whole[whole.index("```") :]
        assert whole.count("```") == 2 and "<" not in whole and ">" not in whole, "it can't leave its block of code"
        assert "@everyone" in code and "@everyone" not in whole[: whole.index("```")]
    assert "evil" not in posted["blocks"][0]["text"]["text"]


def test_the_values_that_nobody_vouches_for_come_first_and_secrets_are_left_out() -> None:
    args = {f"a{n}": n for n in range(8)} | {"to": "eve", "card": {"api_key": "k-1", "no": 4}}
    origins = [{"path": "to", "from": "untrusted"}, {"path": "a0", "from": "task"}]
    said = text(args=args | {"password": "hunter2"}, origins=origins)
    assert said.arguments[0] == ("to", '"eve"', True)
    assert said.hidden_arguments == 3 and "and 3 more" in mail_body(said)
    shown = mail_body(text(args={"password": "hunter2", "card": {"api_key": "k-1", "no": 4}}))
    assert "hunter2" not in shown and "k-1" not in shown and f"password = {LEFT_OUT}" in shown and '"no": 4' in shown
    assert "amount" not in mail_body(text(shows=False))


def test_a_message_fits_into_what_a_chat_takes() -> None:
    args = {f"{n}" * 100: "<&`" * 1_000 for n in range(9)}
    posted = chat_message(text(args=args, rule="r" * 500, agent="&" * 500))
    assert 1_500 < len(posted["text"]) < 2_000 and posted["text"].endswith("… more behind it\n```"), "as Discord takes"
    assert max(len(line) for line in mail_body(text(args=args)).splitlines()) < 350


def test_names_stay_short_enough_for_a_line_and_a_subject() -> None:
    said = text(tool="t" * 500, rule="r" * 500, args={})
    assert dict(said.facts)["Tool"] == "t" * 79 + "…"
    assert len(said.subject) == 150 and said.subject.endswith("…")
    whole = text(tool="t" * 80, rule="", args={})
    assert dict(whole.facts)["Tool"] == "t" * 80 and whole.subject == f"A call waits for approval: {'t' * 80}"


def test_gates_of_a_run_and_unknown_outcomes_ask_in_their_own_words() -> None:
    asked = text(gate_type="loop_detected", tool="", rule="", args=None)
    assert asked.subject == "A run asks a person: loop_detected" and not asked.arguments
    assert ("Until", "2026-11-22 12:00 UTC; then the run ends as escalated") in asked.facts
    assert text(gate_type="unknown_effect").head == "Nobody knows whether a call happened"
    escalating = dict(text(on_expiry="escalate", role="policy_admin", quorum=2).facts)
    assert escalating["Until"].endswith("then the policy admins are asked")
    assert (escalating["Who"], escalating["People"]) == ("role policy_admin", "2 have to approve")


def written(folder: Path, what: str) -> Path:
    file = folder / "notices.yaml"
    file.write_text(what)
    return file


def test_a_file_names_mailboxes_and_chats_each_for_its_projects(tmp_path: Path) -> None:
    file = written(
        tmp_path,
        "smtp: {host: mail.example.com, user: towpath, password: env:MAIL, from: towpath@shop.example}\n"
        "targets:\n"
        "  - {name: approvers, email: [mia@shop.example, paul@shop.example], projects: [shop]}\n"
        "  - {name: ops, chat: env:CHAT, arguments: false}\n",
    )
    environment = {"MAIL": "hunter2hunter2\n", "CHAT": "https://chat.example.com/hooks/T0/s3cret"}
    mia, paul, ops = load_receivers(None, file, environment)
    assert isinstance(mia, Mailbox) and isinstance(paul, Mailbox) and isinstance(ops, ChatChannel)
    names = [f"approvers/{hashlib.sha256(one.encode()).hexdigest()[:8]}" for one in (mia.address, paul.address)]
    assert ([mia.name, paul.name], mia.address) == (names, "mia@shop.example")
    assert (mia.server.port, mia.server.tls, mia.server.password) == (587, "starttls", "hunter2hunter2")
    assert mia.wants("shop", "gate.opened") and not mia.wants("shop", "gate.closed")
    assert ops.wants("other", "gate.opened") and not mia.wants("other", "gate.opened")
    assert not ops.shows_arguments and "s3cret" not in repr(ops) and "hunter2" not in repr((mia, mia.server))


def test_an_address_keeps_its_name_wherever_it_stands_and_stands_once(tmp_path: Path) -> None:
    def names(*addresses: str) -> dict[str, str]:
        written(tmp_path, f"{server}targets: [{{name: a, email: [{', '.join(addresses)}]}}]")
        found = load_receivers(None, tmp_path / "notices.yaml", {})
        return {one.address: one.name for one in found if isinstance(one, Mailbox)}

    server = "smtp: {host: 127.0.0.1, from: t@x.example}\n"
    first = names("m@x.example", "p@x.example")
    assert names("p@x.example", "n@x.example", "m@x.example").items() > first.items()
    assert not any("x.example" in name for name in first.values()), "names stand in tables"
    assert names("m@x.example") == {"m@x.example": "a"}
    with pytest.raises(ValueError, match="a: an address stands twice"):
        names("m@x.example", "p@x.example", "M@x.example")


@pytest.mark.parametrize(("tls", "port"), [("starttls", 587), ("tls", 465), ("none", 25)])
def test_a_mail_server_is_spoken_to_at_the_port_of_its_protocol_unless_another_is_named(
    tmp_path: Path, tls: str, port: int
) -> None:
    server = f"host: 127.0.0.1, tls: {tls}, from: t@x.example"
    for named, wanted in (("", port), (", port: 2525", 2_525)):
        file = written(tmp_path, f"smtp: {{{server}{named}}}\ntargets: [{{name: a, email: [m@x.example]}}]")
        (mailbox,) = load_receivers(None, file, {})
        assert isinstance(mailbox, Mailbox) and mailbox.server.port == wanted


def answer_mails_with(monkeypatch: pytest.MonkeyPatch, failure: Exception) -> None:
    """Have a mail server that is connected to at once fail each e-mail."""

    async def connect(_: SMTP) -> None:
        return None

    async def fail(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(SMTP, "connect", connect)
    monkeypatch.setattr(SMTP, "send_message", fail)


@pytest.mark.parametrize(("codes", "is_gone"), [((550,), True), ((500,), True), ((499,), False), ((450, 550), False)])
async def test_an_address_that_is_refused_for_good_is_tried_no_more_and_any_other_again(
    monkeypatch: pytest.MonkeyPatch, codes: tuple[int, ...], is_gone: bool
) -> None:
    refusals = [SMTPRecipientRefused(code, "no", "mia@shop.example") for code in codes]
    answer_mails_with(monkeypatch, SMTPRecipientsRefused(refusals))
    found = await send_mail(MAILBOX, "msg_1", text(), 1.0)
    assert (found.taken, found.gone) == (False, is_gone) and str(max(codes)) in found.error


@pytest.mark.parametrize("failure", [SMTPResponseException(550, "greylisted"), OSError("away")])
async def test_a_mail_server_that_is_away_or_refuses_all_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    answer_mails_with(monkeypatch, failure)
    found = await send_mail(MAILBOX, "msg_1", text(), 1.0)
    assert (found.taken, found.gone) == (False, False) and found.error


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("targets: [{name: a, email: [m@x.example]}]", "smtp: e-mails need a server"),
        ("targets: [{name: a}]", "a: it needs email or chat, and not both"),
        ("targets: [{name: a, chat: env:GONE}]", "a: the variable of its secret is not set"),
        ("targets: [{name: a, chat: env:PLAIN}]", "a: the url is not https"),
        ("targets: [{name: a, chat: env:CHAT}, {name: a, chat: env:CHAT}]", "a: named twice"),
        ("smtp: {host: m.example, tls: none, from: t@x.example}", "smtp: it would be spoken to without TLS"),
        ("smtp: {host: m.example, user: t, from: t@x.example}", "smtp: a user needs a password"),
        ("smtp: {host: m.example, from: 't@x.example\\nBcc: e'}", "smtp.from"),
        ("smtp: {host: m, from: t@x.example}\ntargets: [{name: a, email: ['M <m@x.example>']}]", "targets.0.email.0"),
    ],
)
def test_a_file_with_a_mistake_is_refused_without_any_secret(tmp_path: Path, what: str, wrong: str) -> None:
    environment = {"PLAIN": "http://chat.example.com/s3cret", "CHAT": "https://chat.example.com/s3cret"}
    with pytest.raises(ValueError, match=r"notices\.yaml") as refused:
        load_receivers(None, written(tmp_path, what), environment)
    assert wrong in str(refused.value) and "s3cret" not in str(refused.value)


def test_the_argument_of_a_text_is_written_as_json() -> None:
    assert '> amount = "129"' in mail_body(text(args={"amount": "129"}))
    assert json.loads(json.dumps(chat_message(text())))["blocks"][0]["type"] == "section"
