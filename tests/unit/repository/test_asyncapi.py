"""The AsyncAPI document and the subjects, streams and methods of the code describe the same."""

from typing import Any

import pytest

from towpath_contracts import rpc, streams, subjects
from towpath_contracts.authority import USERS
from towpath_fabric.asyncapi import CHANNELS, asyncapi_document, covers
from towpath_fabric.schemas import message_types


def patterns() -> list[str]:
    return [
        value for name, value in vars(subjects).items() if name.isupper() and isinstance(value, str) and "." in value
    ]


def test_every_subject_is_described() -> None:
    described = [["*" if part.startswith("{") else part for part in channel.address.split(".")] for channel in CHANNELS]
    wanted = [*patterns(), *(method.subject for method in rpc.METHODS)]
    wanted += [subject for stream in streams.STREAMS for subject in stream.subjects]
    for subject in wanted:
        assert any(covers(subject.split("."), found) for found in described), subject


def test_everything_described_exists() -> None:
    known = [pattern.split(".") for pattern in patterns()] + [method.subject.split(".") for method in rpc.METHODS]
    methods = (*rpc.TOOLSET_METHODS, *rpc.AGENT_METHODS)
    known += [[*method.subject.split("."), "*", "*"] for method in methods]
    for channel in CHANNELS:
        parts = ["*" if part.startswith("{") else part for part in channel.address.split(".")]
        assert any(covers(pattern, parts) for pattern in known), channel.address


def test_what_is_stored_says_in_which_stream() -> None:
    channels = asyncapi_document()["channels"]
    assert channels["runInbox"]["x-carrier"]["stream"] == "INBOX"
    assert channels["logTool"]["x-carrier"]["stream"] == "LOGS"
    assert channels["runTokens"]["x-carrier"] == "core"
    stored = {body["x-carrier"]["stream"] for body in channels.values() if isinstance(body.get("x-carrier"), dict)}
    assert stored == {stream.name for stream in streams.STREAMS}


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document = asyncapi_document()

    def follow(reference: str) -> object:
        found: Any = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        return found

    def check(part: object) -> None:
        if isinstance(part, dict):
            if isinstance(part.get("$ref"), str):
                assert follow(part["$ref"]) is not None
            for value in part.values():
                check(value)
        elif isinstance(part, list):
            for value in part:
                check(value)

    check(document)


@pytest.mark.parametrize(
    ("pattern", "subject", "taken"),
    [
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        ("a.b", "a.b", True),
        ("a.b", "a.*", False),
        ("a", "a.b", False),
    ],
)
def test_patterns_cover_subjects_as_the_broker_does(pattern: str, subject: str, taken: bool) -> None:
    assert covers(pattern.split("."), subject.split(".")) is taken


def test_the_gateway_may_publish_and_receive_what_it_needs() -> None:
    rights = USERS["gateway"]
    for subject in ("task.submit.alice", rpc.EVENTS.subject, rpc.RESOLVE_APPROVAL.subject, rpc.RENDER_PROMPT.subject):
        assert any(covers(right.split("."), subject.split(".")) for right in rights.publish), subject
    assert subjects.RUN_EVENT_ALL in rights.subscribe
    assert len(message_types()) > 60
