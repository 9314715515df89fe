"""Signed notes and checkpoints in C2SP's form, with a note that another implementation signed."""

import base64
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from towpath_audit.entries import AuditLogEntry, EntryError, ErasablePayload
from towpath_audit.merkle import EMPTY_ROOT, leaf_hash
from towpath_audit.notes import (
    MAX_SIZE,
    Checkpoint,
    NoteError,
    PublicKey,
    Signer,
    open_note,
    read_keys,
    read_time,
    split_notes,
    write_time,
)

GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_NOTE = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n"
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)
"""The example of golang.org/x/mod/sumdb/note."""

KEY = Signer("towpath.test/audit", Ed25519PrivateKey.generate())
AT = datetime(2026, 11, 22, 9, 0, 0, 120, tzinfo=UTC)


def test_a_note_that_go_signed_is_read() -> None:
    text, key = open_note(GO_NOTE, [PublicKey.read(GO_KEY)])
    assert text.startswith("If you think")
    assert (key.name, key.text) == ("PeterNeumann", GO_KEY)


def test_a_note_counts_under_a_known_key_alone() -> None:
    note = KEY.note("something\n")
    assert open_note(note, [PublicKey.read(GO_KEY), KEY.public]) == ("something\n", KEY.public)
    other = Signer(KEY.public.name, Ed25519PrivateKey.generate()).public
    renamed = PublicKey("another", KEY.public.raw)
    for keys in ([], [other], [renamed]):
        with pytest.raises(NoteError, match="no known key"):
            open_note(note, keys)
    for bad in (note.replace("some", "any"), "", "text", note[:-1], note.replace("\u2014", "-"), note + "more\n"):
        with pytest.raises(NoteError):
            open_note(bad, [KEY.public])


@pytest.mark.parametrize(
    "text",
    ["", "a+b", "a+00000000+AAAA", GO_KEY.replace("c74f20a3", "c74f20a4"), GO_KEY.replace("+ARpc", "+AhpC"), "a+b+c+d"],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(NoteError):
        PublicKey.read(text)


def test_a_key_has_a_name_without_spaces() -> None:
    for name in ("", "a b", "a+b"):
        with pytest.raises(NoteError):
            Signer(name, Ed25519PrivateKey.generate())


def test_a_checkpoint_keeps_its_content() -> None:
    checkpoint = Checkpoint("towpath.test/audit", 7, leaf_hash(b"x"), AT)
    assert Checkpoint.read(checkpoint.text()) == checkpoint
    timeless = Checkpoint("towpath.test/audit", 0, EMPTY_ROOT)
    assert Checkpoint.read(timeless.text()) == timeless
    assert Checkpoint.read(timeless.text() + "an extension of others\n") == timeless
    root = base64.b64encode(EMPTY_ROOT).decode()
    for bad in ("", "o\n", f"o\n07\n{root}\n", f"o\n-1\n{root}\n", "o\n7\nAAAA\n", f"\n7\n{root}\n", f"o\n7\n{root}"):
        with pytest.raises(NoteError):
            Checkpoint.read(bad)
    with pytest.raises(NoteError):
        Checkpoint.read(f"o\n7\n{root}\ntime yesterday\n")


def test_times_are_written_in_one_way() -> None:
    assert write_time(AT) == "2026-11-22T09:00:00.000120Z"
    assert read_time(write_time(AT)) == AT


def test_notes_are_found_one_after_the_other() -> None:
    notes = [KEY.note(f"note {n}\n\nwith an empty line\n") for n in range(3)]
    assert list(split_notes("".join(notes))) == notes
    assert list(split_notes("\n" + "\n".join(notes) + "\n\n")) == notes
    assert list(split_notes("\n\n")) == []


def entry(**changes: object) -> dict[str, object]:
    fields = {
        "entry_id": 1,
        "at": write_time(AT),
        "project": "p",
        "run_id": None,
        "execution_id": None,
        "phase": "x",
        "verdict": "",
        "tool": "",
        "operation": "",
        "network": "",
        "agent_key": "",
        "caller": "",
        "actor": "",
        "rule": None,
        "policy_version": 0,
        "commitment": "00",
    }
    return {**fields, **changes}


def test_no_two_entries_have_the_same_bytes() -> None:
    listed = [
        *(entry(), entry(entry_id=11), entry(rule=""), entry(rule="-"), entry(phase="", verdict="x")),
        *(entry(phase="x0:"), entry(tool="0:\n"), entry(tool="0:", operation="\n"), entry(verdict="ä"), entry(at="")),
    ]
    assert len({AuditLogEntry.read(one).leaf_hash() for one in listed}) == len(listed)


def test_leaves_are_hashed_as_they_were_when_bundles_of_them_were_made() -> None:
    """Who holds a bundle, or a checkpoint, verifies it with later releases: the bytes that are hashed never change."""
    read = AuditLogEntry.read(entry())
    assert read.leaf_hash().hex() == "23bb364762f4511b9612f921c11a74390748ce898eabe76c90751a00697e8d3b"
    assert read.leaf_hash(1).hex() == "cd6ed66feb18f6b1598979dba33da8c566a3960ce7b046a3d777d6a775a86ce7"


@pytest.mark.parametrize(
    "expected",
    [
        *(None, {}, entry(more=1), entry(entry_id="1"), entry(entry_id=True), entry(project=None), entry(tool=7)),
        *(entry(rule=1), entry(caller="\ud800")),
    ],
)
def test_what_is_no_entry_is_refused(expected: object) -> None:
    with pytest.raises(EntryError):
        AuditLogEntry.read(expected)


@pytest.mark.parametrize(
    "changes",
    [{"salt": "00"}, {"salt": "zz" * 16}, {"salt": "AB" * 16}, {"detail": 1}, {"args_digest": "a\nb"}, {"x": 1}],
)
def test_what_is_no_payload_is_refused(changes: dict[str, object]) -> None:
    good = ErasablePayload(salt=bytes(16), args_digest="sha256:00", detail="{}")
    assert ErasablePayload.read(good.as_json()) == good
    with pytest.raises(EntryError):
        ErasablePayload.read({**good.as_json(), **changes})


def test_what_a_file_brings_is_tried_once_and_not_more_than_is_sensible(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file that repeats its key and has hundreds of bad signatures would keep whoever verifies it busy."""
    assert read_keys([KEY.public.text] * 64) == [KEY.public]
    for bad in ([KEY.public.text] * 65, KEY.public.text, None, [None], [1]):
        with pytest.raises((NoteError, AttributeError)):
            read_keys(bad)  # type: ignore[arg-type]
    line = f"\u2014 {KEY.public.name} {base64.b64encode(KEY.public.key_id + bytes(64)).decode()}\n"
    tried = []
    monkeypatch.setattr(PublicKey, "holds", lambda *_: tried.append(1))
    for lines, tries in ((16, 16), (17, 0), (500, 0)):
        tried.clear()
        with pytest.raises(NoteError):
            open_note("x\n\n" + line * lines, [KEY.public])
        assert len(tried) == tries


def test_a_note_of_64_kib_is_read_and_a_longer_one_refused_unread() -> None:
    signed = KEY.note("x\n")
    whole = KEY.note("x" * (65_536 - len(signed) + 1) + "\n")
    assert len(whole) == 65_536
    assert open_note(whole, [KEY.public])[1] == KEY.public
    with pytest.raises(NoteError, match="no signed note"):
        open_note(KEY.note("x" * (65_536 - len(signed) + 2) + "\n"), [KEY.public])


def test_no_log_has_more_leaves_than_eight_bytes_count() -> None:
    for size, good in ((MAX_SIZE, True), (MAX_SIZE + 1, False)):
        text = Checkpoint(KEY.public.name, size, bytes(32)).text()
        if good:
            assert Checkpoint.read(text).size == size
        else:
            with pytest.raises(NoteError):
                Checkpoint.read(text)


def test_half_a_character_is_in_no_note_and_no_key() -> None:
    note = KEY.note(Checkpoint("towpath.test/audit", 0, EMPTY_ROOT).text())
    for damaged in (f"\ud800{note}", note.replace("\n\n", "\n\udfff\n\n"), note.replace("\n\n", "\n\n\ud800")):
        with pytest.raises(NoteError):
            open_note(damaged, [KEY.public])
    with pytest.raises(NoteError, match="can't be written"):
        PublicKey.read(f"\ud800{KEY.public.text}")
