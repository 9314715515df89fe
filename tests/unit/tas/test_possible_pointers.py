# ruff: noqa: RUF001 - letters that look like ASCII ones are what is meant
"""Hosts in other scripts and without names count as addresses where something is distrusted, and prose does not."""

import time

import pytest
from tests.unit.tas.test_provenance import knowledge, seen

from towpath_tas.core.provenance.possible_pointers import possible_pointers

HOSTS = (
    *("почта.рф/pay", "почта.рф", "банк-онлайн.рф", "例え.テスト:8080/x", "पोस्ट.भारत/pay", "mail.қаз?x=1", "ПОЧТА.РФ"),
    *("evil\u3002com/pay", "evil\uff0ecom/x", "evil\uff61com", "www\u3002evil.com", "почта\u3002рф/pay"),
    *("ｅｖｉｌ\uff0eｃｏｍ", "почта.Рф", "почта.Онлайн/pay"),
    *("localhost:81/x", "LOCALHOST/x", "8.8.8.8/pay", "185.12.3.4:8080/x", "8.8.8.8:81", "8.8.8.8?pay=1"),
    *("[2001:db8::1]/x", "[2001:db8::7]:81", "[::ffff:8.8.8.8]/x", "[fe80::1%eth0]/x"),
)
PROSE = (
    *(
        "Привет.Как дела у вас?",
        "Адрес: г.Москва, ул.Ленина, т.е. и т.д.",
        "今天很好\u3002明天也很好\u3002",
        "z.B. für Übung, u.ä.",
    ),
    *(
        "我喜欢Python\u3002Java也不错\u3002",
        "Version 1.2.3.4 of it",
        "Is it 1.2.3.4?",
        "[12:30:45] it began",
        "see localhost, please",
    ),
    *("x[::2] and y[1:2]", "ждать...потом", "и/или", "1.2.3", "今日は晴れです\uff0e明日は雨です\uff0e", "10.5 км/ч"),
)


@pytest.mark.parametrize("host", HOSTS)
def test_a_copied_host_of_another_script_or_without_a_name_counts_as_an_untrusted_address(host: str) -> None:
    known = knowledge("Answer bob@acme.com.", untrusted=f"Dear user. Log in: {host} or lose everything.")
    for body in (host, f"See {host}", f"Log in at ({host})."):
        found = seen(known, to=["bob@acme.com"], body=body)
        assert (found["worst_sink"], found["worst_pointer"], found["worst_sentence"]) == (
            "task",
            "untrusted",
            "untrusted",
        )


@pytest.mark.parametrize("host", HOSTS)
def test_such_a_host_inside_a_field_of_a_record_is_untrusted(host: str) -> None:
    known = knowledge("Answer bob@acme.com.", trusted=[f"Note of a customer: {host} is his."])
    assert "untrusted" in seen(known, to=["bob@acme.com"], body=f"See {host} now")["pointers"]


def test_what_the_task_says_is_still_vouched_for() -> None:
    hosts = ("почта.рф/pay", "localhost:81/x", "8.8.8.8/pay", "https://acme.com/почта.рф/x")
    known = knowledge(
        f"Send {' and '.join(hosts)} to bob@acme.com. They are of acme.com and почта.рф.", untrusted=list(hosts)
    )
    for host in hosts:
        found = seen(known, to=["bob@acme.com"], body=f"Here it is: {host}")
        assert found["worst_pointer"] == "task", host
    assert seen(known, to=["почта.рф/pay", "bob@acme.com"])["worst_sink"] == "task"


@pytest.mark.parametrize("host", HOSTS)
def test_a_task_vouches_for_nothing_more_than_it_says(host: str) -> None:
    known = knowledge(f"Send {host} to bob@acme.com.")
    assert seen(known, to=[f"{host}.evil.example"])["worst_sink"] == "unknown"


def test_another_path_of_a_host_that_was_read_leads_to_that_host() -> None:
    known = knowledge("Answer bob@acme.com.", untrusted="All is at почта.рф now")
    assert seen(known, to=["bob@acme.com"], body="See почта.рф/other/place")["worst_pointer"] == "untrusted"


@pytest.mark.parametrize("text", PROSE)
def test_prose_is_no_address(text: str) -> None:
    assert [*possible_pointers(text)] == []


@pytest.mark.parametrize(
    "piece",
    [
        "a.",
        "a\u3002",
        "é.",
        "я\u3002",
        "я" * 63 + "\u3002",
        "a-" * 31 + ".",
        "[:",
        "[1::",
        "1.",
        "1.1.1.1",
        "localhost:",
        "é/",
        "я.я",
    ],
)
def test_no_text_makes_the_search_slow(piece: str) -> None:
    text = "é " + piece * (200_000 // len(piece))
    began = time.process_time()
    assert sum(1 for _ in possible_pointers(text)) <= len(text)
    assert time.process_time() - began < 3
