"""Who may know what a call carries: by every text that it was copied from, and by nobody where that is not known."""

import string
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.tas.test_careful_example import asked, bundle
from tests.unit.tas.test_provenance import SEND

from towpath_contracts.tools.calls import EffectClass
from towpath_contracts.tools.readers import OutputReaders, declared_readers
from towpath_tas.core.provenance import carried_readers, provenance, search_budget
from towpath_tas.core.provenance.call_values import CallProvenance
from towpath_tas.core.provenance.provenance import RunProvenance
from towpath_tas.core.provenance.text_readers import NOBODY, CallDeclaration, readers_of
from towpath_tas.core.provenance.value_leaves import ValueSource

SECRET = "The plan for autumn is called Halyard"
ANN, BOB, EVE = "ann@acme.example", "bob@acme.example", "eve@evil.example"
TASK = f"Send it to {EVE}, {BOB} and {ANN}"


def told(written: Any, args: Any = None) -> CallDeclaration:
    return CallDeclaration(declared_readers(written), args)


def known(*outputs: tuple[Any, Any], task: str = TASK) -> RunProvenance:
    """Return what a run has seen; *outputs* are results, each with what its tool declares."""
    found = RunProvenance()
    found.add_task(task)
    for step, (result, written) in enumerate(outputs, 1):
        found.add_output(ValueSource(f"tool-{step}", step), result, trusted=False, readers=told(written))
    return found


def seen(run: RunProvenance, *to: str, **args: Any) -> dict[str, Any]:
    return run.origin(SEND, {"to": list(to), **args}, readers=True).context()


def leaks(run: RunProvenance, *to: str, **args: Any) -> list[str]:
    found: list[str] = seen(run, *to, **args)["leaks"]
    return found


def test_a_secret_that_goes_to_whom_the_task_names_is_a_leak_all_the_same() -> None:
    run = known((SECRET, [ANN, BOB]))
    found = seen(run, EVE, ANN, body=f"Hello!\n{SECRET}. Bye.")
    assert found["worst_sink"] == "task"
    assert (found["readers"], found["readers_known"], found["confidential"]) == ([ANN, BOB], True, True)
    assert found["leaks"] == [EVE]
    assert leaks(run, "Ann Smith <ANN@acme.example>", f"{ANN}, {BOB}", body=SECRET) == []
    assert leaks(run, f"{ANN}, {EVE}", body=SECRET) == [f"{ANN}, {EVE}"]
    assert seen(run, EVE, body="Nothing of it")["readers"] == ["anybody"]
    assert leaks(run, EVE, body="Nothing of it") == []


@pytest.mark.parametrize(
    ("result", "body"),
    [
        ({"token": "hx7-99-zk"}, "My own words around hx7-99-zk, and more of them"),
        ({"token": "HX7 99 ZK"}, "hx79-9zk"),
        ({"pin": 81726354}, "It is 81726354"),
        ({"amount": 4711.25}, {"deep": [4711.25]}),
        ({"link": "https://files.example/a?k=9"}, "See https://files.example/a?k=9 now"),
        ({"text": f"One thing. {SECRET}. Another."}, f"{SECRET}!"),
        ({"rows": [{"name": "Kim Longname Surname"}]}, "we met kim longname-surname there"),
        ({SECRET: 1}, SECRET),
    ],
)
def test_what_is_copied_in_any_way_that_provenance_sees_keeps_its_readers(result: Any, body: Any) -> None:
    run = known((result, [ANN]))
    assert leaks(run, EVE, ANN, body=body) == [EVE]
    assert leaks(known((result, "anybody")), EVE, body=body) == []
    assert seen(known((result, None)), EVE, body=body)["leaks"] == [EVE]


@pytest.mark.parametrize("between", [", ", ";", " ", "\n", ","])
def test_several_addresses_in_one_text_are_told_of_each_other(between: str) -> None:
    book, other = "dora@book.example", "ed@book.example"
    run = known(([book, other], [ANN]))
    assert leaks(run, book, body="Hello") == []
    both = f"{book}{between}{other}"
    assert leaks(run, both, body="Hello") == [both]
    assert leaks(run, book, other, body="Hello") == [book, other]


def test_a_flag_that_is_a_sink_counts_where_it_is_true() -> None:
    share = SEND.model_copy(update={"sinks": ("to", "copy")})
    run = known((SECRET, [ANN]))
    for copy, told_to in ((True, ["true"]), (False, [])):
        found = run.origin(share, {"to": [ANN], "copy": copy, "body": SECRET}, readers=True).context()
        assert found["leaks"] == told_to
    public = known((SECRET, "anybody")).origin(share, {"to": [], "copy": True, "body": SECRET}, readers=True)
    assert public.context()["leaks"] == []


def test_what_the_task_says_and_short_numbers_have_no_readers() -> None:
    run = known(({"code": "hx7-99-zk", "to": EVE, "count": 12, "done": True}, [ANN]), task=f"{TASK}: hx7-99-zk")
    assert leaks(run, EVE, body="hx7-99-zk") == []
    assert leaks(run, EVE, body="About hx7-99-zk", priority=12, copy=True) == []
    inputs = known(({"code": "hx7-99-zk"}, [ANN]), task="Do it")
    inputs.add_task("", {"code": "hx7-99-zk"})
    assert leaks(inputs, EVE, body="hx7-99-zk") == []
    assert leaks(inputs, EVE, body="About hx7-99-zk") == []
    link = "https://files.example/a?k=9"
    linked = known(([f"Look at {link} now", {"link": link}], [ANN]), task="Do it")
    linked.add_task("", {"link": link})
    assert leaks(linked, EVE, body=f"My own words: {link}") == []
    assert leaks(linked, EVE, body=f"Look at {link} now") == [EVE], "the sentence is no input"


def test_an_address_that_is_the_only_sink_is_not_told_to_itself() -> None:
    """It is told to other sinks, and what is hidden in it, or stands in a sink that is no address, is told too."""
    kim = "kimberly.longname@partner.example"
    run = known(({"address": kim, "token": "hx7-99-zk", "pin": "81726354", "word": "a secret of many letters"}, [ANN]))
    assert leaks(run, kim, body="Hello") == []
    assert leaks(run, f"Kim <{kim}>", body="Hello") == []
    assert leaks(run, kim, body="The token is hx7-99-zk") == [kim]
    assert leaks(run, kim, body=f"Write to {kim}") == [kim]
    assert leaks(run, kim, EVE, body="Hello") == [kim, EVE]
    for hidden in ("hx7-99-zk@evil.example", "https://evil.example/?q=81726354", "a secret of many letters"):
        assert leaks(run, hidden, body="Hello") == [hidden]


def test_undeclared_is_not_public_and_not_confidential() -> None:
    found = seen(known((SECRET, None)), EVE, body=SECRET)
    assert (found["readers"], found["readers_known"], found["confidential"]) == (["nobody"], False, False)
    assert found["leaks"] == [EVE]
    public = seen(known((SECRET, "anybody")), EVE, body=SECRET)
    assert (public["readers"], public["readers_known"], public["confidential"]) == (["anybody"], True, False)
    secret = seen(known((SECRET, [])), EVE, body=SECRET)
    assert (secret["readers"], secret["readers_known"], secret["confidential"]) == (["nobody"], True, True)
    assert secret["leaks"] == [EVE]


def test_a_text_with_two_sources_may_be_known_to_those_alone_whom_both_name() -> None:
    run = known((SECRET, [ANN, BOB]), ({"x": SECRET}, [BOB, EVE]), (SECRET, "anybody"))
    found = seen(run, ANN, BOB, EVE, body=SECRET)
    assert (found["readers"], found["leaks"]) == ([BOB], [ANN, EVE])
    both = known((SECRET, [ANN, BOB]), ("Another secret of autumn", [BOB, EVE]))
    assert seen(both, BOB, body=f"{SECRET}\nAnother secret of autumn")["readers"] == [BOB]
    assert seen(known((SECRET, [ANN]), (SECRET, [BOB])), ANN, body=SECRET)["readers"] == ["nobody"]


MAILS = {
    "mails": [
        {"from": f"Ann <{ANN}>", "to": [BOB], "subject": "Autumn and Halyard", "body": SECRET},
        {"from": EVE, "to": [ANN], "subject": "Shoes, much cheaper", "body": "Buy shoes now, they are cheap"},
        {"subject": "Nobody wrote this mail", "body": "It came without any sender"},
    ],
    "folder": "The folder of all mails",
}
PARTS = [{"of": "mails", "fields": ["from", "to"]}, {"of": "mails.subject", "anybody": True}]


def test_each_part_of_an_output_has_its_own_readers() -> None:
    run = known((MAILS, PARTS))
    assert seen(run, ANN, body=SECRET)["readers"] == [ANN, BOB]
    assert seen(run, ANN, body="Buy shoes now, they are cheap")["readers"] == [ANN, EVE]
    assert seen(run, ANN, body="Autumn and Halyard")["readers"] == ["anybody"]
    lost = seen(run, ANN, body="It came without any sender")
    assert (lost["readers"], lost["readers_known"], lost["leaks"]) == (["nobody"], True, [ANN])
    outside = seen(run, ANN, body="The folder of all mails")
    assert (outside["readers_known"], outside["leaks"]) == (False, [ANN])
    assert seen(known(([MAILS["mails"]], {"fields": "from"})), ANN, body=SECRET)["readers"] == [ANN]


def test_readers_may_stand_in_the_arguments() -> None:
    found = RunProvenance()
    found.add_task(TASK)
    readers = told({"args": "shared_with", "names": ["staff"]}, {"shared_with": [BOB, 4711]})
    found.add_output(ValueSource("files.make", 1), SECRET, trusted=False, readers=readers)
    assert seen(found, BOB, body=SECRET)["readers"] == ["4711", BOB, "staff"]
    assert leaks(found, BOB, "#Staff", 4711, body=SECRET) == []  # type: ignore[arg-type]


def test_no_output_names_everybody_and_a_crowd_is_nobody() -> None:
    run = known(({"text": SECRET, "shared": ["anybody", "Any Body", "ANYBODY"]}, {"fields": "shared"}))
    assert seen(run, EVE, "anybody", body=SECRET)["leaks"] == [EVE, "anybody"]
    assert readers_of(f"u{place}@acme.example" for place in range(1_001)) is NOBODY
    assert readers_of(["x" * 400]).names == ()


def test_a_failure_is_known_to_those_whom_the_tool_names_itself() -> None:
    assert told(None).loose_text() is None
    assert told({"fields": "to"}).loose_text() == NOBODY
    assert told([ANN]).loose_text() == readers_of([ANN])
    assert told([{"anybody": True}, {"of": "x", "names": [ANN]}]).loose_text() == readers_of([ANN])


def test_what_was_not_looked_at_whole_leaves_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    short = known()
    short.mark_incomplete()
    unsafe = {"readers": ["nobody"], "readers_known": False, "confidential": True, "leaks": [ANN]}
    assert seen(short, ANN, body="x").items() >= unsafe.items()
    many = known().origin(SEND, {"to": [ANN], "body": [f"part {n}" for n in range(600)]}, readers=True).context()
    assert (many["confidential"], many["leaks"][0]) == (True, ANN)
    long = known(("x", None))
    body = "".join(f"The sentence with number {place} in it.\n" for place in range(300))
    assert seen(long, ANN, body=body).items() >= unsafe.items()
    monkeypatch.setattr(search_budget, "MAX_SEARCHED", 10_000)
    spent = known(("lorem ipsum dolor " * 2_000, [ANN]))
    assert seen(spent, ANN, body="Something long and new\nAnd another line of it").items() >= unsafe.items()
    assert seen(spent, ANN, body=list(range(5_000, 5_020))).items() >= unsafe.items(), "numbers alone"


def test_a_long_call_is_searched_for_fields_without_the_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carried_readers, "MAX_HEADS", 50)
    assert leaks(known(({"token": "hx7-99-zk"}, [ANN])), EVE, body=f"{'own words ' * 20} hx7-99-zk") == [EVE]


def test_more_sets_of_readers_than_are_kept_are_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provenance, "MAX_READER_SETS", 2)
    rows = [{"who": f"u{n}@acme.example", "text": f"The text number {n}{n}{n}{n} is here"} for n in range(5)]
    run = known(({"rows": rows}, {"of": "rows", "fields": "who"}))
    assert leaks(run, "u1@acme.example", body="The text number 1111 is here") == []
    lost = seen(run, "u4@acme.example", body="The text number 4444 is here")
    assert (lost["leaks"], lost["confidential"]) == (["u4@acme.example"], True)


def test_of_a_run_two_thousand_sets_of_readers_are_kept() -> None:
    run = known()
    sets = [readers_of([f"u{number}@acme.example"]) for number in range(2_001)]
    kept = [run._kept(one) for one in sets]
    assert kept[:2_000] == sets[:2_000]
    assert kept[2_000] == NOBODY
    assert run._kept(sets[0]) == sets[0], "one of those that there are"


def test_a_tool_without_sinks_leaks_nowhere() -> None:
    reads = SEND.model_copy(update={"effect_class": EffectClass.PURE, "sinks": None})
    found = known((SECRET, [ANN])).origin(reads, {"body": SECRET}, readers=True).context()
    assert (found["leaks"], found["confidential"]) == ([], True)
    flags = known((SECRET, [ANN])).origin(SEND.model_copy(update={"sinks": None}), {"copy": True, "body": SECRET})
    assert flags.carried is None
    every = known((SECRET, [ANN])).origin(
        SEND.model_copy(update={"sinks": None}), {"copy": True, "priority": 1, "body": SECRET, "to": []}, readers=True
    )
    assert every.context()["leaks"] == ["true", "1", SECRET]


NAMES = st.sampled_from([ANN, BOB, EVE, "staff", "#staff", f"Ann <{ANN}>"])
WRITTEN = st.one_of(st.none(), st.just("anybody"), st.lists(NAMES, max_size=4))
TEXTS = st.sampled_from([SECRET, "Another secret of autumn", "hx7-99-zk", "x@y.example", {"a": [SECRET, 81726354]}])
OUTPUTS = st.lists(st.tuples(TEXTS, WRITTEN), max_size=5)
BODY = st.lists(
    st.sampled_from([SECRET, "Another secret of autumn", "own words", "hx7-99-zk", "x@y.example", "81726354"]),
    max_size=4,
)
SINKS = (ANN, BOB, EVE, "staff", "nobody-of-them")


def carried(outputs: list[tuple[Any, Any]], body: list[str]) -> CallProvenance:
    return known(*outputs).origin(SEND, {"to": list(SINKS), "body": "\n".join(body)}, readers=True)


def admitted(found: CallProvenance) -> set[str]:
    return set(SINKS) - set(found.context()["leaks"])


@settings(deadline=None)
@given(OUTPUTS, BODY, st.tuples(TEXTS, WRITTEN), st.sampled_from([SECRET, "hx7-99-zk", "x@y.example"]))
def test_the_readers_only_shrink_as_more_is_read_and_copied(
    outputs: list[tuple[Any, Any]], body: list[str], more: tuple[Any, Any], also: str
) -> None:
    before, read = carried(outputs, body), carried([*outputs, more], body)
    copied = carried([*outputs, more], [*body, also])
    assert admitted(copied) <= admitted(read) <= admitted(before)
    for wide, narrow in ((before, read), (read, copied)):
        assert wide.context()["readers_known"] or not narrow.context()["readers_known"]
        assert narrow.context()["confidential"] or not wide.context()["confidential"]


@settings(deadline=None)
@given(OUTPUTS, BODY, st.data())
def test_what_nobody_declared_is_never_known_to_more(
    outputs: list[tuple[Any, Any]], body: list[str], data: st.DataObject
) -> None:
    hidden = [(text, None if data.draw(st.booleans()) else written) for text, written in outputs]
    declared, undeclared = carried(outputs, body), carried(hidden, body)
    assert admitted(undeclared) <= admitted(declared)
    if not undeclared.context()["readers_known"]:
        assert undeclared.context()["readers"] == ["nobody"]
        assert admitted(undeclared) == set()


@settings(deadline=None)
@given(st.lists(st.text(string.printable, min_size=1, max_size=12), max_size=4), st.text(max_size=40))
def test_no_text_breaks_the_search_for_readers(texts: list[str], body: str) -> None:
    run = known(({"rows": [{"who": text, "text": text} for text in texts]}, {"of": "rows", "fields": "who"}))
    assert seen(run, ANN, body=body)["readers"]


LEAKS = (
    "kind: Policy\nrules:\n  - {name: all, tool: '*', effect: allow}\n"
    "  - {name: told, tool: '*', effect: EFFECT, when: size(origin.leaks) > 0, note: It is not for everybody}\n"
)


@pytest.mark.parametrize("effect", ["deny", "require_approval"])
def test_one_rule_holds_what_goes_to_others_than_its_readers(effect: str) -> None:
    rules = bundle(LEAKS.replace("EFFECT", effect))
    run = known((SECRET, [ANN]))
    for to, verdict in ((EVE, effect), (ANN, "allow")):
        query = asked("mail.send", {"to": [to], "body": SECRET})
        blind = rules.authorize(query)
        assert (blind.effect, blind.needs_origin) == (effect, True), "what was not read restricts"
        decision = rules.authorize(rules.with_origin(query, run))
        assert decision.effect == verdict
    assert not rules.authorize(asked("read", {"body": SECRET})).needs_origin, "a tool without sinks needs no reading"


def test_readers_are_looked_for_only_where_a_rule_names_them() -> None:
    run = known((SECRET, [ANN]))
    query = asked("mail.send", {"to": [EVE], "body": SECRET})
    careless = bundle(LEAKS.replace("EFFECT", "deny").replace("size(origin.leaks) > 0", "origin.worst == 'record'"))
    found = careless.with_origin(query, run).call_origin
    assert found is not None
    assert found.carried is None
    assert "leaks" not in found.context()
    for when in ("has(origin.worst)", "origin.readers_known", "origin.confidential"):
        named = bundle(LEAKS.replace("EFFECT", "deny").replace("size(origin.leaks) > 0", when))
        looked = named.with_origin(query, run).call_origin
        assert looked is not None
        assert looked.carried is not None


def test_a_denial_says_who_may_know_it_where_it_goes_and_where_it_was_read() -> None:
    rules = bundle(LEAKS.replace("EFFECT", "deny"))
    for written, expected in (
        ([ANN], f"body may be known to {ANN} only (it was read with tool-1 in step 1), and goes to {EVE} (to[0])"),
        (None, f"nobody has said who may know body (it was read with tool-1 in step 1), and goes to {EVE} (to[0])"),
    ):
        query = asked("mail.send", {"to": [EVE], "body": SECRET})
        decision = rules.authorize(rules.with_origin(query, known((SECRET, written))))
        assert decision.denial is not None
        assert expected in decision.denial.reason
        assert "those who may know it" in decision.denial.suggestion
        assert EVE not in decision.reason, "what the audit keeps names nobody"


def test_a_gate_shows_readers_and_the_audit_keeps_words_alone() -> None:
    found = known((SECRET, [ANN]), (SECRET, None)).origin(SEND, {"to": [EVE, ANN], "body": SECRET}, readers=True)
    shown = {one["path"]: one for one in found.shown()}
    assert shown["to[0]"]["leak"] is True
    assert shown["body"]["may_know"] == [
        {"tool": "tool-1", "step": 1, "readers": [ANN]},
        {"tool": "tool-2", "step": 2, "readers": None},
    ]
    kept = found.audited()
    assert (kept["confidential"], kept["readers_known"], kept["leaks"]) == (True, False, ["to"])
    assert "readers" not in kept
    assert ANN not in str(kept)
    assert EVE not in str(kept)


@pytest.mark.parametrize(
    ("written", "parts"),
    [
        (None, ()),
        ("anybody", (OutputReaders(anybody=True),)),
        ([ANN], (OutputReaders(names=(ANN,)),)),
        ([], (OutputReaders(),)),
        ({"fields": "to"}, (OutputReaders(fields=("to",)),)),
        ({"of": "mails", "fields": ["from", "to"]}, (OutputReaders(of="mails", fields=("from", "to")),)),
        (
            [{"names": ANN}, {"of": "x", "anybody": True}],
            (OutputReaders(names=(ANN,)), OutputReaders(of="x", anybody=True)),
        ),
    ],
)
def test_readers_are_declared_in_short_forms(written: Any, parts: tuple[OutputReaders, ...]) -> None:
    assert declared_readers(written) == parts


@pytest.mark.parametrize(
    "written",
    [
        *(ANN, "", 1, ["anybody"], [""], [1], {"field": "to"}, {"from": "to"}, {"anybody": True, "names": [ANN]}),
        *({"of": "a..b"}, {"fields": "a b"}, [{"fields": "to"}, ANN], {"names": "anybody"}, ["x" * 321]),
    ],
)
def test_an_unclear_declaration_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        declared_readers(written)
