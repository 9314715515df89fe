"""Conditions whose evaluation would take long are not evaluated: the call is denied with a code of its own."""

import random
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tas.test_argument_work import ALLOW, decided

from towpath_tas.adapters import cel
from towpath_tas.adapters.cel import CelCondition, compile_condition, compile_grant
from towpath_tas.core.policy.condition_work import MAX_WORK, MOST, work_of
from towpath_tas.core.policy.conditions import ConditionBudget, ConditionContext, ConditionResult
from towpath_tas.core.policy.context_sizes import ContextMeasure

LIST = [f"v{number}" for number in range(1_000)]
LONG = LIST * 20
TEXT = "a" * 250_000
SMALL = {"l": LIST[:20], "s": "short", "n": [1, 2, 3]}
RANDOM = "".join(random.Random(1).choices("abc", k=100_000))
ARGS = {"l": LONG, "m": LONG, "s": TEXT, "p": r"\w{500}", "o": {name: {"a": name} for name in LIST}}
ARGS |= {"r": RANDOM, "k": [LIST[:400]] * 100, "copy": {name: {"a": name} for name in LIST}}
ONES = "[" + ",".join("1" * 24) + "]"
NAMES = ("run", "caller", "agent", "origin", "int")
SUM = "+".join(["args.s"] * 400)

NESTED = [
    f"args.l.{outer}(x, args.l.{inner}(y, x != y && y != 'q'))"
    for outer in ("all", "exists", "exists_one", "map", "filter")
    for inner in ("all", "exists", "exists_one", "map", "filter")
]
HOSTILE = [
    *NESTED,
    *(f"args.l.{macro}(x, x + x).size() > 3" for macro in ("map", "filter")),
    "args.l.map(x, {'a': x, 'b': [x, x]}).size() > 3",
    "args.l.all(x, x in args.m)",
    "args.l.all(x, !(x in args.m))",
    "args.l.exists(x, args.s.contains(x))",
    "args.l.exists(x, args.s.endsWith(x + 'b'))",
    "args.l.all(x, args.s != x + args.s)",
    "args.l.all(x, args.l != args.m)",
    "args.l.all(x, x.matches('^v[0-9]+$'))",
    r"args.l.all(x, x.matches('\\w{30}'))",
    "args.l.all(x, x.matches(args.p))",
    "args.l.all(x, args.s.matches(x))",
    "args.o.all(k, args.o.all(j, args.o[k] != args.o[j]))",
    "args.l.all(x, args.o.exists(k, args.o[k].a == x))",
    "args.l.map(x, args.l).all(y, y.all(z, z != 'q'))",
    "args.l.map(x, [x]).map(x, x + x).map(x, x + x).size() == 1",
    "[args.s]" + ".map(x, x + x)" * 40 + ".size() == 1",
    "[args.l]" + ".map(x, x + x)" * 20 + ".size() == 1",
    "[1, 2, 3, 4, 5, 6, 7, 8].all(a, " * 8 + "true" + ")" * 8,
    "args.l.all(a, " * 12 + "a != 'q'" + ")" * 12,
    *("+".join(["args.s"] * count) + " == 'x'" for count in (100, 300, 500)),
    *("(" + "+".join(["args.l"] * count) + ").size() == 1" for count in (100, 300)),
    *(
        "&&".join([f"args.s.matches('{pattern}')"] * 10)
        for pattern in (r"\\w{300}b", r"(\\w{30}){30}", "[^a-z]{900}(?i)a{900}")
    ),
    "&&".join(["args.s.matches(args.p)"] * 10),
    r"args.s.matches('(((\\pL{9}){9}){9}){9}')",
    "args.l.filter(x, args.l.filter(y, y == x).size() > 0).size() > 0",
    "args.l.exists_one(x, args.l.exists_one(y, args.l.exists_one(z, z == x && x == y)))",
    "args.l.all(x, run.labels.all(y, args.m.all(z, z != y)))",
    "args.l.all(x, size(args.l.map(y, y)) > 0)",
    "args.l.map(x, args.s + x).size() > 0",
    "args.l.map(x, args.s + args.s).all(y, y.contains('b'))",
    "".join(f"{ONES}.all//\n({name}, " for name in NAMES) + "run + caller + agent + origin > 0" + ")" * len(NAMES),
    "".join(f"{ONES}.all({name}, " for name in NAMES) + "run + caller + agent + origin > 0" + ")" * len(NAMES),
    "".join(f"{ONES}.existsOne(x{place}, " for place in range(6)) + "false" + ")" * 6,
    "args.l.existsOne(x, args.l.existsOne(y, x == y))",
    *(f'args.a == {text} || {SUM} == "x"' for text in (r'r"\"', 'b"" //"\n', "'" * 3 + r"\\" + "'" * 3)),
    *(
        f"args.s.matches({pattern})"
        for pattern in (
            r'"(?:\\w\x7b100})\x7b60}"',
            r'"(?:\\w\u007b100})\173 60 }"',
            r"'(?x)\\w{ 1 0 0 }'",
            r"'(?:\\w{ 100 }){ 60 }'",
            r"r'\w{300}'",
            "args.p",
            r"'\\w{300}' + ''",
        )
    ),
    "||".join(["args.r.matches('(?:a[abc]{150}|b[abc]{150}a|c[abc]{150}b)+[x-z]')"] * 5),
    "||".join(["args.r.matches('(a|b|c)*a(a|b|c){20}x')"] * 5),
    "args.k.exists(x, args.k.exists(y, x != x || y != x && y == x))",
    "args.k.all(x, args.k.all(y, x == y))",
    "[args].map(x, [x, x])" + ".map(x, [x, x])" * 22 + " == [args]" + ".map(x, [x, x])" * 23,
    *(
        "&&".join([pair] * 60)
        for pair in ("args.o == args.copy", "args.l == args.m", "!('q' in args.l)", "args == args")
    ),
    "args.l.all(a, " * 150 + "true" + ")" * 150,
]


WIDE = {f"k{number}": {f"j{inner}": inner for inner in range(100)} for number in range(100)}


def below(depth: int, value: Any) -> Any:
    for _ in range(depth):
        value = {"a": value}
    return value


COPIED = {
    "m": {f"k{number}": number for number in range(25_000)},
    "d": below(40, {f"k{number}": number for number in range(10_000)}),
    "e": [{"y": below(30, WIDE)}],
    "k": "d",
}
STEPS = ".a" * 39
COPIES = [
    " || ".join(["args.m.x == 5"] * 60),
    " || ".join(["has(args.m.q)"] * 60),
    " || ".join([f"args.d{STEPS}.x == 5"] * 10),
    " || ".join(f"has(args.d{'.a' * steps})" for steps in range(1, 40)),
    " || ".join([f"(args.d){STEPS} == 5"] * 10),
    " || ".join([f"dyn(args.d){STEPS} == 5"] * 10),
    " || ".join([f"args['d']{STEPS} == 5"] * 10),
    " || ".join([f"args[args.k]{STEPS} == 5"] * 10),
    " || ".join(["[args.d][0]" + STEPS + " == 5"] * 10),
    " || ".join(["{'q': args.d}.q" + STEPS + " == 5"] * 10),
    "args.e.exists(x, " + " || ".join([f"x.y{'.a' * 30}.q == 5"] * 40) + ")",
    "args.e.exists(x, " + " || ".join([f"(x).y{'.a' * 30}.q == 5"] * 40) + ")",
    "args.e.map(x, x).exists(z, " + " || ".join([f"z.y{'.a' * 30}.q == 5"] * 40) + ")",
]


def seen(args: dict[str, Any]) -> ConditionContext:
    run = {"id": "", "project": "p", "network": "n", "step": 1, "labels": {"a": "b"}}
    return ConditionContext({"args": args, "run": run, "agent": {}, "caller": "c", "origin": {}})


def test_there_are_eighty_hostile_conditions() -> None:
    assert len(HOSTILE) >= 80


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_condition_is_refused_or_cheap(text: str) -> None:
    context = seen(ARGS)
    began = time.thread_time()
    try:
        result = CelCondition(text)(context)
    except ValueError as error:
        assert str(error)
        return
    took_s = time.thread_time() - began
    if context.too_costly:
        assert result is ConditionResult.UNCLEAR
    assert took_s < 0.5, f"{took_s:.3f} s for {text[:100]}"


@pytest.mark.parametrize("text", COPIES)
def test_a_condition_that_copies_much_to_read_little_is_refused_or_cheap(text: str) -> None:
    context = seen(COPIED)
    condition = CelCondition(text)
    began = time.thread_time()
    result = condition(context)
    took_s = time.thread_time() - began
    assert (result is ConditionResult.UNCLEAR) or not context.too_costly
    assert took_s < 0.15, f"{took_s:.3f} s for {text[:100]}"


def test_a_member_of_a_member_costs_the_copy_of_what_is_around_it() -> None:
    around = estimated("args.m == 5", COPIED)
    assert around <= estimated("args.m.x == 5", COPIED) < 1.1 * around
    assert estimated("args.k == 5", COPIED) < 10
    assert 2.9 * around < estimated("args.m.x.y.z == 5", COPIED) < 4 * around
    order = {"customer": {"address": {"city": "Bern"}}, "lines": [{"price": {"amount": 1}}] * 200}
    for text in ("args.o.customer.address.city == 'Bern'", "args.o.lines.all(x, x.price.amount < 5)"):
        context = seen({"o": order})
        assert CelCondition(text)(context) is ConditionResult.YES, text


@pytest.mark.parametrize(
    "text",
    [
        "args.l.all(x, x.startsWith('v'))",
        "args.l.all(x, x in args.n || x.contains('v'))",
        "args.l.exists(x, x == 'v5') && args.l.filter(x, x == 'v5').size() == 1",
        "args.l.all(x, x.matches('^[a-z][0-9]{1,6}$'))",
        r"args.s.matches('^[\\w.]{1,40}@[\\w-]{1,40}\\.example$') || args.n[0] + args.n[1] + args.n[2] < 10",
        "args.l.all(x, args.l.exists_one(y, y == x))",
    ],
)
def test_an_honest_condition_on_arguments_of_usual_size_is_evaluated(text: str) -> None:
    context = seen(SMALL)
    assert CelCondition(text)(context) is not ConditionResult.UNCLEAR
    assert not context.too_costly


@pytest.mark.parametrize("effect", ["allow", "deny", "require_approval"])
def test_a_call_whose_conditions_would_take_too_long_is_denied_with_a_code_of_its_own(effect: Any) -> None:
    heavy = replace(ALLOW, name="heavy", effect=effect, when="args.l.all(x, args.l.exists_one(y, y == x))")
    decision = decided({}, {"l": LIST * 3}, rules=(ALLOW, heavy))
    assert decision.denial is not None
    assert (decision.effect, decision.denial.violation_type) == ("deny", "too_costly")
    assert "conditions" in decision.denial.reason


def estimated(text: str, args: dict[str, Any] | None = None) -> float:
    return work_of(text).estimate(ContextMeasure(seen(SMALL if args is None else args)))


def test_a_condition_without_macros_joins_or_patterns_costs_next_to_nothing_on_small_arguments() -> None:
    for text in ("args.amount <= 50.0 && caller == 'x'", "'all(' == args.x", "args.a.contains('+') || args.b + 1 > 2"):
        assert estimated(text) < MAX_WORK / 5_000


def test_signs_in_texts_count_nothing_and_long_lists_of_a_condition_do() -> None:
    assert estimated("args.a == 'x.all(y, z)' && args.b == \"a + b + c\"") < MAX_WORK / 5_000
    assert estimated("[" + ",".join("1" * 500) + "].all(x, [" + ",".join("1" * 500) + "].all(y, x == y))") > MAX_WORK


def test_what_a_condition_does_not_look_at_costs_nothing() -> None:
    large = {**ARGS, "to": "a@example.com", "all": LIST[:10]}
    assert estimated("args.to == 'a' && args['to'] != 'b'", large) < MAX_WORK / 5_000
    listed = {"to": "a@example.com", "lines": LIST, "body": TEXT}
    assert estimated("['@a.example', '@b.example'].exists(end, args.to.endsWith(end))", listed) < MAX_WORK
    assert (
        estimated("args.to.endsWith('.example') && !args.body.matches('(?i)secret|password')", listed) < MAX_WORK / 10
    )
    assert estimated(r"args.to.matches('^[\\w.]{1,40}@[\\w-]{1,40}\\.example$')", large) < MAX_WORK / 2


def test_an_estimate_is_a_number_for_any_depth() -> None:
    for depth in (1, 30, 290):
        found = estimated("args.l.all(x, " * depth + "x + x == 'a'" + ")" * depth, ARGS)
        assert found <= MOST and found == found
    assert found == MOST


def test_a_map_counts_what_it_collects_for_each_element() -> None:
    for elements, collected in ((500, 100), (1_000, 20)):
        context = seen({"l": LIST[:elements]})
        CelCondition("args.l.map(x, [" + ",".join(["x"] * collected) + "]).size() > 3")(context)
        assert context.too_costly, f"{collected} of each of {elements}"


def test_the_budget_is_one_for_all_conditions_of_a_decision() -> None:
    context = seen({"l": LIST * 10})
    results = [compile_condition(f"args.l.all(x, x != 'q{place}')")(context) for place in range(30)]
    assert results[0] is ConditionResult.YES and results[-1] is ConditionResult.UNCLEAR and context.too_costly


def test_a_decision_has_a_tenth_of_a_second_of_conditions_and_advice_half_of_that_besides() -> None:
    context = ConditionContext({})
    advice = context.with_values({"caller": "ann"}).budget
    assert context.budget.spend(100_000) and not context.budget.spend(1)
    assert advice.spend(50_000) and not advice.spend(1)


def test_a_condition_has_4096_characters_at_most() -> None:
    beside = len("args.a == ''")
    assert CelCondition(f"args.a == '{'x' * (4_096 - beside)}'")(seen({"a": "y"})) is ConditionResult.NO
    with pytest.raises(ValueError, match="at most 4096 are allowed"):
        CelCondition(f"args.a == '{'x' * (4_097 - beside)}'")


def test_what_is_asked_again_of_the_same_values_costs_nothing() -> None:
    condition = compile_condition("args.l.all(x, x != 'q')")
    budget = ConditionBudget()
    for _ in range(30):
        assert condition(ConditionContext(seen({"l": LIST * 10}), budget)) is ConditionResult.YES
    assert condition(ConditionContext(seen({"l": [*LIST, "q"]}), budget)) is ConditionResult.NO
    assert condition(ConditionContext(seen({"l": True}), budget)) is not condition(
        ConditionContext(seen({"l": []}), budget)
    )


def test_a_comment_a_raw_text_and_three_quotes_are_refused_with_what_to_write() -> None:
    for text, remedy in (
        ("args.a == 1 // why", "#"),
        (r"args.a.matches(r'\d')", r"'\\d'"),
        ("args.a == bR'x'", "raw"),
        ("args.a == '''x'''", "one pair of quotes"),
        ('args.a == """x"""', "one pair of quotes"),
    ):
        for compiler in (compile_condition, compile_grant):
            with pytest.raises(ValueError, match="a condition has no") as refused:
                compiler(text)
            assert remedy in str(refused.value)
    assert compile_condition("args.a == 'http://x' && args.b != \"r'''\"")(seen({})) is ConditionResult.UNCLEAR


@pytest.mark.parametrize(
    "text", [text for text in HOSTILE if re.search(r"\.(all|exists|exists_one|existsOne|map|filter)\W", text)]
)
def test_a_grant_has_no_macro_however_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        compile_grant(text)


def test_a_macro_that_the_tokens_do_not_show_is_found_in_what_was_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cel, "is_macro", lambda _tokens, _place: False)
    for macro in ("all", "exists", "exists_one", "map", "filter", "existsOne"):
        with pytest.raises(ValueError, match="macro"):
            compile_grant(f"[args.a].{macro}(x, x > 0) != [args.b]")
