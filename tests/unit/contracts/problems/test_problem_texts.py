"""What people read of a problem: every one once, in the platform's own words."""

import re
from uuid import UUID

import pytest
from pydantic import ValidationError

from towpath.cli.shared.exit_codes import format_problem
from towpath.errors import RefusedError
from towpath.networks.spec_files import PolicyFile, locate_policy_refusal
from towpath_contracts.budgets import Budget
from towpath_contracts.problems.input_faults import details_of, locate_fault, summary_of, tell_faults
from towpath_contracts.problems.known_names import PLACEHOLDERS, with_names
from towpath_contracts.problems.registry import REGISTRY, ProblemDetail, problem
from towpath_contracts.text import counted, join_sentences
from towpath_engine.expressions.criterion import fault_of


def test_a_library_s_prefix_is_not_shown() -> None:
    with pytest.raises(ValidationError) as caught:
        Budget()
    assert summary_of(details_of(caught.value)) == "give at least one of usd, tokens, model_calls, tool_calls"


def test_the_same_problem_is_listed_once() -> None:
    entry = {"loc": ("a",), "type": "missing", "msg": "Field required"}
    assert [one.detail for one in details_of([entry, entry])] == ["'a' is missing: add it"]


def test_a_detail_that_repeats_the_list_is_not_printed_twice() -> None:
    with pytest.raises(ValidationError) as caught:
        Budget(tokens=-5, soft=7)
    both = details_of(caught.value)
    shown = format_problem(problem("request_invalid", summary_of(both), errors=both))
    assert shown[0].endswith("2 problems") and [line[:4] for line in shown[1:-1]] == ["  - ", "  - "]
    alone = format_problem(problem("request_invalid", summary_of(both[:1]), errors=both[:1]))
    assert "/tokens" in alone[0] and len(alone) == 2


def test_a_list_beside_a_detail_of_its_own_stays() -> None:
    found = problem("request_invalid", "1 problem(s)", errors=details_of([{"loc": ("a",), "type": "x", "msg": "no"}]))
    assert format_problem(found)[1] == "  - /a: no"


def test_a_detail_that_begins_with_the_first_problem_is_cut_before_it() -> None:
    errors = details_of([{"loc": ("goal", 0), "type": "criterion_invalid", "msg": "can't be read"}])
    shown = format_problem(problem("criterion_invalid", "1 problem(s): can't be read", errors=errors))
    assert shown[0].endswith("evaluated: 1 problem(s)") and shown[1] == "  - /goal/0: can't be read"


@pytest.mark.parametrize(
    ("text", "hinted"),
    [("tests.failed = 0", True), ("last_output == 'a = b' )", False), ("tests.failed =< 0", False)],
)
def test_an_assignment_in_a_criterion_gets_a_hint_at_what_was_meant(text: str, hinted: bool) -> None:
    assert fault_of(text).endswith("did you mean ==?") is hinted


def test_the_text_of_an_error_has_the_first_problems_once_and_the_number_of_the_others() -> None:
    def told(detail: str, count: int) -> str:
        errors = tuple(ProblemDetail(pointer=f"/{n}", code="x", detail=f"fault {n}") for n in range(count))
        return str(
            RefusedError(problem("network_invalid", detail or summary_of(errors), errors=errors, remedy="Mend."))
        )

    assert told("2 problem(s).", 2) == "network_invalid: 2 problem(s): fault 0 (/0); fault 1 (/1). Mend."
    assert told("", 3) == "network_invalid: /0: fault 0; /1: fault 1; /2: fault 2. Mend."
    few = "fault 0 (/0); fault 1 (/1); fault 2 (/2); and 1 more. Mend."
    assert told("n: fault 0; fault 1; fault 2; fault 3", 4) == f"network_invalid: n: {few}"
    assert told("", 4) == f"network_invalid: {few}"
    assert told("did you mean 'a'?", 0) == "network_invalid: did you mean 'a'? Mend."
    assert told("it is not taken.", 0) == "network_invalid: it is not taken. Mend."


def test_one_fault_is_told_with_its_place_and_several_are_counted() -> None:
    errors = [ProblemDetail(pointer=f"/{n}", code="x", detail=f"fault {n}") for n in range(2)]
    assert tell_faults(errors[:1]) == "/0: fault 0" and tell_faults(errors) == "2 problems"
    assert [counted(number, "step") for number in (0, 1, 2)] == ["0 steps", "1 step", "2 steps"]
    assert [counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]


def test_a_fault_of_a_policy_is_told_with_the_name_of_its_file_before_the_line() -> None:
    assert locate_fault("p.yaml", "line 4: there is no field 'a'") == "p.yaml:4: there is no field 'a'"
    assert locate_fault("a\\1.yaml", "write it: towpath fmt FILE") == "a\\1.yaml: write it: towpath fmt a\\1.yaml"
    both = "towpath networks validate FILE checks it, and towpath networks publish FILE publishes it"
    assert locate_fault("p.yaml", f"line 1: {both}") == f"p.yaml:1: {both.replace('FILE', 'p.yaml')}"
    assert locate_fault("p.yaml", "line 4: no", "/rules/0/when") == "p.yaml:4: when: no"
    assert locate_fault("p.yaml", "line 4: when is odd", "/rules/0/when") == "p.yaml:4: when is odd"
    assert locate_fault("p.yaml", "the policy is empty") == "p.yaml: the policy is empty"
    errors = tuple(ProblemDetail(pointer=f"/rules/{n}", detail=f"line {n + 3}: no") for n in range(2))
    found = problem("policy_invalid", "p.yaml: 2 problems", errors=errors)
    placed = locate_policy_refusal(PolicyFile(text="", source="p.yaml"), found)
    assert placed.detail == "p.yaml:3: no; p.yaml:4: no" and "at the line" in placed.remedy
    declared = locate_policy_refusal(PolicyFile(text="", source="p.py:9"), found)
    assert declared.detail == "p.py:9: no"
    in_one_line = "kind: Policy\n\nrules: [{name: a, max_calls_per_run: 0, effect: allow}]"
    few = [ProblemDetail(pointer="/rules/0/max_calls_per_run", detail="line 3: it has to be at least 1")]
    few += [ProblemDetail(pointer="/rules/0/effect", detail="line 3: the effect is wrong")]
    keyed = locate_policy_refusal(
        PolicyFile(text=in_one_line, source="p.yaml"), problem("policy_invalid", "", errors=few)
    )
    assert keyed.detail == ("p.yaml:3: max_calls_per_run: it has to be at least 1; p.yaml:3: the effect is wrong")
    assert locate_policy_refusal(PolicyFile(text="", source=""), found) is found
    other = problem("overloaded", "later")
    assert locate_policy_refusal(PolicyFile(text="", source="p.yaml"), other) is other


KNOWN = {field: f"{field.replace('_', '-')}-7c1e" for field in PLACEHOLDERS.values()}
COMMAND = re.compile(r"towpath [a-z ]+ (RUN|GATE|ERASURE|NETWORK|ID)\b")


@pytest.mark.parametrize("code", [code for code, kind in REGISTRY.items() if COMMAND.search(kind.remedy)])
def test_a_remedy_names_what_is_known_in_the_place_of_its_word(code: str) -> None:
    run_id = KNOWN["run_id"]
    told = problem(code, "no", run_id=run_id, known=KNOWN)
    assert not COMMAND.search(told.remedy) and told.run_id == run_id
    of_run = problem(code, "no").of_run(UUID(int=7))
    assert of_run.run_id == str(UUID(int=7)) and " RUN" not in of_run.remedy
    assert problem(code, "no").remedy == REGISTRY[code].remedy, "what is not known is not made up"


def test_a_remedy_takes_no_name_that_a_shell_would_read_otherwise() -> None:
    told = "Look: towpath runs show RUN; towpath gates show GATE."
    for hostile in ("$(rm -rf ~)", "a b", "-f", "", None, "a;b", "x" * 129):
        assert with_names(told, {"run_id": hostile, "gate_id": "g1"}) == told.replace("GATE", "g1")


def test_sentences_are_joined_with_one_end_each() -> None:
    assert join_sentences("did you mean 'a'?", "", "List them") == "did you mean 'a'? List them."
    assert join_sentences("it is so.", "Do it!") == "it is so. Do it!"
    assert join_sentences("there are:", "Wait…") == "there are. Wait…"
    assert join_sentences("", "") == ""
