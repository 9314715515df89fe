"""The pages of the audit: what is proved there is proved, what is not says so, and files are what the API gave."""

import json
from typing import Any

import pytest
from tests.support.answered_api import AnsweredApi, asked_of
from tests.support.tas.audit_log import signer

from towpath_audit.bundle import digest
from towpath_audit.entries import AuditLogEntry, ErasablePayload
from towpath_audit.merkle import check_inclusion, inclusion_proof, leaf_hash, tree_root
from towpath_audit.notes import Checkpoint, Signer
from towpath_audit.proof import ProvedEntry, serialize_proof
from towpath_console.api import ApiRefusalError
from towpath_console.drawings.proof_steps import path_nodes, steps_of
from towpath_console.page import Download
from towpath_console.pages.audit import audit_entry, audit_erasures, audit_files, audit_search
from towpath_console.pages.shared import with_zone
from towpath_console.renderer import Renderer

KEY = signer()
AROUND = {"section": "/audit", "url": "/audit", "query": {}, "live": "", "message": ""}
HOSTILE = '"><script>alert(1)</script>\u202e'
RUN = "01a21845-b704-742b-8158-186564bfbba8"
PAYLOAD = ErasablePayload(salt=bytes(16), args_digest="sha256:1", detail=json.dumps({"reason": HOSTILE}))


def entry_of(**fields: Any) -> AuditLogEntry:
    usual = {
        "entry_id": 7, "at": "2026-11-26T14:00:00.000000Z", "project": "p", "run_id": RUN, "execution_id": None,
        "phase": "decision", "verdict": "allow", "tool": "t", "operation": "call", "network": "n", "agent_key": "a",
        "caller": "c", "actor": "", "rule": "r", "policy_version": 1, "commitment": PAYLOAD.commitment(),
    }  # fmt: skip
    return AuditLogEntry(**(usual | fields))


ENTRY = entry_of()
LEAVES = [*(leaf_hash(bytes([n])) for n in range(5)), ENTRY.leaf_hash(), leaf_hash(b"after")]
PLACE = 5


def note_of(leaves: list[bytes], key: Signer = KEY) -> str:
    return key.note(Checkpoint(KEY.public.name, len(leaves), tree_root(leaves), None).text())


def proof_of(entry: AuditLogEntry = ENTRY, payload: ErasablePayload | None = PAYLOAD) -> str:
    path = inclusion_proof(LEAVES, PLACE)
    return serialize_proof(note_of(LEAVES), [KEY.public], [ProvedEntry(PLACE, entry, payload, path)])


def searched(entry: AuditLogEntry = ENTRY, **more: Any) -> dict[str, Any]:
    said = {name: value for name, value in entry.as_json().items() if name != "commitment"}
    detail = json.loads(PAYLOAD.detail)
    return said | {"args_digest": "", "detail": detail, "erased": False, "tool_version": 0} | more


def platform(proof: Any, found: dict[str, Any] | None = None, status: int = 200) -> AnsweredApi:
    path = "/v1/audit/entries/7/proof"
    answer = proof if isinstance(proof, dict) else {"proof": proof, "entries": 1, "size": len(LEAVES)}
    page = {"entries": [found or searched()], "next_before": None, "total": 1}
    return AnsweredApi({"/v1/audit": page, path: answer}, {path: status})


async def shown(api: AnsweredApi, query: dict[str, str] | None = None) -> str:
    page = await audit_entry.entry(asked_of(api, query, entry_id="7"))
    assert json.loads(json.dumps(page.data))
    return Renderer().whole(page, **(AROUND | {"query": query or {}}))


async def read(download: Download) -> str:
    return "".join([part async for part in download.parts])


async def test_an_entry_has_a_number_that_the_log_can_have() -> None:
    api = platform(proof_of())
    for number, asks in ((2**63 - 2, True), (2**63 - 1, False)):
        with pytest.raises(ApiRefusalError, match="not_found"):
            await audit_entry.entry(asked_of(api, entry_id=str(number)))
        assert bool(api.seen) == asks, "one that the database can't hold is no question for it"
        api.seen.clear()


def test_the_steps_lead_from_each_leaf_to_the_root_in_trees_of_all_shapes() -> None:
    for size in range(1, 34):
        leaves = [leaf_hash(bytes([n])) for n in range(size)]
        for index in range(size):
            path = inclusion_proof(leaves, index)
            nodes = [*path_nodes(leaves[index], index, size, path)]
            check_inclusion(leaves[index], index, size, path, tree_root(leaves))
            root = nodes[-1].made if nodes else leaves[index].hex()
            assert root == tree_root(leaves).hex(), (size, index)


async def test_an_entry_is_proved_on_its_page() -> None:
    html = await shown(platform(proof_of()))
    assert "This entry stands in the signed log, unchanged" in html and "can't be relied on" not in html
    assert tree_root(LEAVES).hex() in html and KEY.public.fingerprint in html
    assert "Nobody outside has vouched" in html, "what is not proved is said"
    assert "<script>alert" not in html and "⟨U+202E⟩" in html


@pytest.mark.parametrize(
    "changed",
    [
        lambda said: said["entries"][0]["entry"].update(verdict="deny"),
        lambda said: said["entries"][0]["payload"].update(detail="{}"),
        lambda said: said["entries"][0].update(leaf=4),
        lambda said: said["entries"][0]["path"].reverse(),
        lambda said: said.update(checkpoint=note_of([*LEAVES, leaf_hash(b"x")])),
        lambda said: said.update(checkpoint=said["checkpoint"].replace("\n7\n", "\n8\n")),
        lambda said: said.update(keys=[]),
        lambda said: said.update(keys=None, entries=[[]]),
        lambda said: said["entries"][0].update(path=[None]),
        lambda said: said.update(entries=[]),
    ],
)
async def test_a_proof_with_one_thing_changed_is_never_shown_as_proved(changed: Any) -> None:
    said = json.loads(proof_of())
    changed(said)
    html = await shown(platform(json.dumps(said, indent=2)))
    assert "stands in the signed log" not in html and "can't be relied on" in html


async def test_a_search_that_shows_other_fields_than_the_proof_is_told() -> None:
    for other in ({"rule": "another"}, {"verdict": "deny"}, {"detail": {"amount": 1}}):
        html = await shown(platform(proof_of(), searched(**other)))
        assert "can't be relied on" in html and "The search shows other fields" in html


async def test_what_was_kept_outside_is_what_the_proof_is_held_against() -> None:
    api = platform(proof_of())
    kept = {"kept": note_of(LEAVES).replace("\n", "\r\n"), "key": KEY.public.fingerprint}
    html = await shown(api, kept)
    assert "The checkpoint that you kept has the same root" in html and "the one that you named" in html
    assert ("GET", "/v1/audit/entries/7/proof", {"size": str(len(LEAVES))}) in api.seen
    other = [*LEAVES[:-1], leaf_hash(b"another log")]
    html = await shown(platform(proof_of()), {"kept": note_of(other)})
    assert "can't be relied on" in html and "does not lead here" in html
    html = await shown(platform(proof_of()), {"kept": "no checkpoint"})
    assert "This is no checkpoint" in html
    html = await shown(platform(proof_of()), {"key": "sha256:00"})
    assert "can't be relied on" in html


async def test_an_entry_without_a_proof_is_shown_with_the_reason() -> None:
    problem = {"code": "audit_broken", "title": "The log does not fit", "detail": HOSTILE, "remedy": "Ask."}
    html = await shown(platform(problem, status=503))
    assert "There is no proof of it now" in html and "The log does not fit" in html and "<script>alert" not in html
    with pytest.raises(ApiRefusalError):
        await shown(platform(problem, status=403))


async def test_an_erased_entry_is_proved_without_its_details() -> None:
    html = await shown(platform(proof_of(payload=None), searched(erased=True, detail={})))
    assert "stands in the signed log" in html and "They were erased" in html
    assert steps_of(proof_of(payload=None), 7).payload == "erased"


@pytest.mark.parametrize("written", ["0", "-1", "x", "1e3", "9" * 30, "٣", str(2**63 - 1)])
async def test_a_number_that_no_entry_has_is_no_page(written: str) -> None:
    with pytest.raises(ApiRefusalError) as refused:
        await audit_entry.entry(asked_of(platform(proof_of()), entry_id=written))
    assert refused.value.status == 404
    with pytest.raises(ApiRefusalError):
        await audit_entry.entry(asked_of(platform(proof_of()), entry_id="8"))


async def test_the_proof_is_given_as_the_file_that_the_verifier_reads() -> None:
    download = await audit_entry.proof_file(asked_of(platform(proof_of()), entry_id="7"))
    assert await read(download) == proof_of() and download.name == "proof-of-entry-7.json"


async def test_the_search_passes_its_filters_on_and_says_what_it_looked_for() -> None:
    api = AnsweredApi({"/v1/audit": {"entries": [], "next_before": None, "total": 0}})
    query = {"tool": "t", "verdict": "deny", "actor": "mia", "since": "2026-11-26T14:00", "before": "90", "x": "y"}
    page = await audit_search.search(asked_of(api, query))
    sent = {"limit": "50", "before": "90", "tool": "t", "verdict": "deny", "actor": "mia"}
    assert api.seen == [("GET", "/v1/audit", sent | {"since": "2026-11-26T14:00Z"})]
    assert "No entry fits these filters" in Renderer().whole(page, **AROUND)
    assert [with_zone(one) for one in ("2026-01-02T03:04:05", "2026-01-02T03:04:05+01:00", "x")] == [
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05+01:00",
        "x",
    ]


async def test_hostile_words_of_an_entry_stay_words() -> None:
    found = [searched(tool=HOSTILE, agent_key=HOSTILE, rule=HOSTILE, actor=HOSTILE, phase=HOSTILE, verdict=HOSTILE)]
    api = AnsweredApi({"/v1/audit": {"entries": found, "next_before": 3, "total": 1}})
    html = Renderer().whole(await audit_search.search(asked_of(api)), **AROUND)
    assert "<script>alert" not in html and html.count("⟨U+202E⟩") >= 5


async def test_a_checkpoint_is_signed_or_said_not_to_be() -> None:
    at = {"at": "2026-11-26T14:00:00Z", "public_key": KEY.public.text, "fingerprint": KEY.public.fingerprint}
    good = {"note": note_of(LEAVES), "size": len(LEAVES), **at}
    assert audit_files.signature_of(good)["holds"]
    torn = good["note"].replace("\n7\n", "\n8\n")
    for wrong in ({"note": torn}, {"size": 9}, {"fingerprint": "sha256:0"}, {"public_key": "x"}, {"note": ""}):
        assert not audit_files.signature_of(good | wrong)["holds"], wrong
    page = await audit_files.checkpoint(asked_of(AnsweredApi({"/v1/audit/checkpoint": good | {"note": torn}})))
    assert "not signed" in Renderer().whole(page, **AROUND)
    api = AnsweredApi({"/v1/audit/checkpoint": good})
    assert await read(await audit_files.checkpoint_file(asked_of(api, file="note"))) == good["note"]
    assert await read(await audit_files.checkpoint_file(asked_of(api, file="key"))) == f"{KEY.public.text}\n"
    with pytest.raises(ApiRefusalError):
        await audit_files.checkpoint_file(asked_of(api, file="secret"))


async def test_a_bundle_is_asked_for_piece_by_piece_with_the_chain_of_its_pieces() -> None:
    def piece(sent: dict[str, Any]) -> dict[str, Any]:
        page = sent.get("cursor", {}).get("page", 0)
        return {"lines": [f"line {page}a", f"line {page}b"], "cursor": {"page": page + 1} if page < 2 else None}

    api = AnsweredApi({"/v1/audit/export": piece})
    download = await audit_files.export(asked_of(api, {"since": "2026-11-01T00:00", "until": ""}))
    assert len(api.seen) == 1, "only the first piece, until the browser reads"
    text = await read(download)
    assert text == "line 0a\nline 0b\nline 1a\nline 1b\nline 2a\nline 2b\n"
    assert [sent.get("previous") for _, _, sent in api.seen] == [None, digest("line 0b"), digest("line 1b")]
    assert all(sent["since"] == "2026-11-01T00:00Z" and "until" not in sent for _, _, sent in api.seen)
    refusing = AnsweredApi({"/v1/audit/export": {"code": "forbidden"}}, {"/v1/audit/export": 403})
    with pytest.raises(ApiRefusalError):
        await audit_files.export(asked_of(refusing, {"every_project": "yes"}))
    assert refusing.seen[0][2] == {"every_project": True}


async def test_a_bundle_of_a_day_has_what_happened_from_its_first_moment_to_its_last() -> None:
    api = AnsweredApi({"/v1/audit/export": {"lines": ["a"], "cursor": None}})
    await audit_files.export(asked_of(api, {"day": "2026-02-28", "since": "", "until": ""}))
    assert api.seen[0][2] == {"since": "2026-02-28T00:00:00+00:00", "until": "2026-02-28T23:59:59.999999+00:00"}


@pytest.mark.parametrize("query", [{"day": "2026-02-30"}, {"day": "tomorrow"}, {"day": "2026-02-28", "since": "x"}])
async def test_no_bundle_is_of_a_day_that_is_none_or_has_times_beside_it(query: dict[str, str]) -> None:
    api = AnsweredApi({"/v1/audit/export": {"lines": ["a"], "cursor": None}})
    with pytest.raises(ApiRefusalError) as refused:
        await audit_files.export(asked_of(api, query))
    assert refused.value.status == 422 and api.seen == []


async def test_erasures_are_listed_with_who_asked_and_who_decided() -> None:
    one = {
        "erasure_id": RUN, "kind": "payloads", "status": "done", "run_id": RUN, "caller": HOSTILE, "before": None,
        "reason": HOSTILE, "requested_by": "mia", "requested_at": "2026-11-26T14:00:00Z", "decided_by": "noa",
        "decided_at": "2026-11-26T15:00:00Z", "erased": 3, "runs": 0,
    }  # fmt: skip
    api = AnsweredApi({"/v1/erasures": {"erasures": [one], "next_before": None}})
    html = Renderer().whole(await audit_erasures.erasures(asked_of(api, {"status": "done"})), **AROUND)
    assert "mia" in html and "noa" in html and "<script>alert" not in html
    assert api.seen[0][2] == {"limit": "50", "status": "done"}


ERASURE = {
    "erasure_id": RUN, "kind": "run", "status": "requested", "run_id": RUN, "execution_id": None, "caller": None,
    "before": None, "reason": HOSTILE, "requested_by": "mia", "requested_at": "2026-11-26T14:00:00Z",
    "alone_from": "2999-11-29T14:00:00Z", "decided_by": "", "decided_at": None, "erased": 0, "done_at": None,
    "runs": 2, "run_ids": [RUN], "parts": [], "single_person": False,
}  # fmt: skip


async def erasure_seen_by(name: str, **more: Any) -> str:
    api = AnsweredApi({f"/v1/erasures/{RUN}": ERASURE | more, "/v1/me": {"caller": name}})
    return Renderer().whole(await audit_erasures.erasure(asked_of(api, erasure_id=RUN)), **AROUND)


async def test_an_erasure_says_what_goes_what_stays_and_who_may_confirm_it() -> None:
    html = await erasure_seen_by("noa")
    assert "2 runs, fixed" in html and "What stays" in html and "proofs still hold" in html
    assert "Nothing brings it back" in html and "<script>alert" not in html and "another person" not in html
    assert "You asked for it: another person confirms it" in await erasure_seen_by("mia")
    assert "You asked for it" not in await erasure_seen_by("mia", single_person=True)
    done = await erasure_seen_by("mia", status="done", parts=["runs", "tas"], decided_by="noa", kind="run")
    assert "Confirm the erasure" not in done and "erased</span> the run&#39;s log" in done


async def test_what_retention_prunes_is_told_as_that_and_nobody_is_asked_to_confirm_it() -> None:
    more = {"kind": "prune", "status": "confirmed", "parts": ["runs"], "decided_by": "retention", "run_id": None}
    html = await erasure_seen_by("mia", **more, before="2026-01-01T00:00:00Z")
    assert "Erasure of old runs, by retention" in html and "<dt>Chosen</dt>" in html
    assert "every entry of the audit with its details" in html and "details of the audit&#39;s entries" not in html
    assert "Confirm the erasure" not in html and "under way</span> arguments, results" in html
    listed = {"erasures": [ERASURE | more | {"runs": 2, "before": "2026-01-01T00:00:00Z"}], "next_before": None}
    api = AnsweredApi({"/v1/erasures": listed})
    html = Renderer().whole(await audit_erasures.erasures(asked_of(api, {})), **AROUND)
    assert "2 old runs, ended before" in html and "/audit?run_id=None" not in html


async def test_an_erasure_is_asked_for_and_confirmed_with_nothing_beside_what_is_meant() -> None:
    api = AnsweredApi({f"/v1/runs/{RUN}/erase": ERASURE, "/v1/erasures": ERASURE})
    empty = {"caller": "", "before": ""}
    await audit_erasures.request_erasure(asked_of(api), {"kind": "run", "run_id": RUN, "reason": "r", **empty})
    before = {"kind": "payloads", "run_id": "", "caller": "ann", "before": "2026-11-26T14:00", "reason": "r"}
    await audit_erasures.request_erasure(asked_of(api), before)
    assert [sent for _, _, sent in api.seen] == [
        {"reason": "r"},
        {"caller": "ann", "before": "2026-11-26T14:00Z", "reason": "r"},
    ]
    for wrong in (
        {"kind": "run", "run_id": "x"},
        {"kind": "run", "run_id": RUN, "caller": "ann"},
        {"kind": "payloads", "reason": "r"},
    ):
        with pytest.raises(ApiRefusalError):
            await audit_erasures.request_erasure(asked_of(api), wrong)
    assert len(api.seen) == 2


async def test_an_erasure_is_confirmed_by_who_said_so_twice() -> None:
    confirm = f"/v1/erasures/{RUN}/confirm"
    api = AnsweredApi({confirm: ERASURE, f"/v1/erasures/{RUN}/withdraw": ERASURE})
    with pytest.raises(ApiRefusalError):
        await audit_erasures.decide(asked_of(api, erasure_id=RUN, verb="confirm"), {})
    assert api.seen == []
    await audit_erasures.decide(asked_of(api, erasure_id=RUN, verb="confirm"), {"confirmed": "yes"})
    done = await audit_erasures.decide(asked_of(api, erasure_id=RUN, verb="withdraw"), {})
    assert done.location == f"/audit/erasures/{RUN}" and api.seen[0][1] == confirm
    for path in ({"erasure_id": "../keys", "verb": "confirm"}, {"erasure_id": RUN, "verb": "drop"}):
        with pytest.raises(ApiRefusalError):
            await audit_erasures.decide(asked_of(api, **path), {"confirmed": "yes"})
