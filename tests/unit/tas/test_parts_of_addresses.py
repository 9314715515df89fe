"""A part of an address, a link or a path is another one: the task vouches for the whole only."""

import pytest
from tests.unit.tas.test_provenance import knowledge, seen


@pytest.mark.parametrize(
    ("task", "part"),
    [
        ("Send it to o'brien@acme.com", "brien@acme.com"),
        ("Send it to a&b@acme.com", "b@acme.com"),
        ("Send it to bob!x@acme.com", "x@acme.com"),
        ("Send it to SRS0=h=tt=acme.com=bob@fwd.example", "bob@fwd.example"),
        ("Delete https://api.example/items?id=3 please", "https://api.example/items"),
        ("Delete https://api.example/items?id=3&dry=1 please", "https://api.example/items?id=3"),
        ("Delete https://api.example/items#x please", "https://api.example/items"),
        ("Delete https://api.example/it'em/x please", "https://api.example/it"),
        ("Delete https://api.example/a(b)/c", "https://api.example/a(b"),
        ("Delete https://api.example/a;v=1/c", "https://api.example/a"),
        ("Delete https://api.example/a,b/c", "https://api.example/a"),
        ("Delete https://files.example/~bob/x", "https://files.example/"),
        ("Delete https://files.example/~bob/x", "bob/x"),
        ("Delete /srv/data/$old/tmp", "/srv/data/"),
        ("Delete '/srv/data old/tmp'", "/srv/data"),
        ("Delete '/srv/data old/tmp'", "old/tmp"),
        ("Delete /srv/*.tmp", "/srv/"),
        ("Delete /srv/a!b", "/srv/a"),
        ("Copy host:/srv/x", "/srv/x"),
        ("Delete a,b/c", "b/c"),
        ("Send it to SRS0=bob@acme.com", "bob@acme.com"),
        ("Delete /srv/a=b", "/srv/a"),
        ("Delete /srv/a~", "/srv/a"),
        ("Delete C:\\x\\y=1", "C:\\x\\y"),
        ("Delete s3://bucket/a=1/x", "s3://bucket/a"),
    ],
)
def test_a_part_is_not_said_by_the_task(task: str, part: str) -> None:
    assert seen(knowledge(task, untrusted=f"use {part}"), to=[part])["worst_sink"] == "untrusted"


@pytest.mark.parametrize(
    ("task", "value"),
    [
        ("write to bob@acme.com, please.", "bob@acme.com"),
        ("write to 'bob@acme.com'", "bob@acme.com"),
        ("write to bob@acme.com: hello", "bob@acme.com"),
        ("write to Bob <bob@acme.com>.", "bob@acme.com"),
        ("mail:bob@acme.com", "bob@acme.com"),
        ("to bob@acme.com,eve@acme.com", "eve@acme.com"),
        ("write to o'brien@acme.com", "o'brien@acme.com"),
        ("(see https://a.example/x)", "https://a.example/x"),
        ('see "https://a.example/x", and go', "https://a.example/x"),
        ("see https://a.example/x?id=3.", "https://a.example/x?id=3"),
        ("delete '/srv/data old/tmp'", "/srv/data old/tmp"),
        ("delete `/srv/data/x`, now", "/srv/data/x"),
        ("delete /srv/data/x and /srv/y.", "/srv/y"),
        ("don't delete /srv/x, it's Bob's", "/srv/x"),
    ],
)
def test_a_whole_address_is_said_by_the_task(task: str, value: str) -> None:
    assert seen(knowledge(task, untrusted=f"use {value}"), to=[value])["worst_sink"] == "task"


@pytest.mark.parametrize("end", ["\r\n", "\n", "\x1f", "\u2028", "\r\nnow", "\x00", "\x85"])
def test_a_destination_with_a_control_character_is_not_vouched_for(end: str) -> None:
    for value in ("bob@acme.com", "https://a.example/x"):
        assert seen(knowledge(f"use {value} now"), to=[value + end])["worst_sink"] != "task"
