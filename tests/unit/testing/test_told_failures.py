"""A test of an agent that fails says why: what pytest prints of it holds what its runs came to."""

import pytest
from tests.docs_site.taken_blocks import taken

from towpath import Agent, Network
from towpath.testing import harness, respond, script
from towpath_testing import runs as testing_runs

pytest_plugins = ["pytester"]

HEAD = """
from towpath import Agent, Network, tool
from towpath.testing import execute_tool, harness, respond, script


@tool(effect_class="pure")
def price(item: str) -> int:
    return len(item)


@tool(effect_class="pure")
def find(booking: str) -> str:
    raise LookupError(f"there is no booking {booking}")


TOOLS = [price, find]
LONE = Network("lone", [Agent("clerk", prompt="{tools}", tools=TOOLS, can_respond=True, default=True)])
ALLOWED = [{"name": "all", "tool": "*", "effect": "allow"}]


def run(*moves, message="hello"):
    with harness(LONE, policy=ALLOWED, tools=TOOLS, model=script(moves)) as h:
        return h.run(message).result()


"""

# Without the summary: where CI is set, pytest repeats a failure's whole message in it.
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:asyncio", "-rN")
TOO_SHORT = (
    "E*<run failed script_exhausted: the script of 1 entry has nothing left for agent clerk: add what it does next>*"
)
REFUSED = "<run completed *: tea; 1 call was refused: arguments_invalid: price: there is no parameter 'itm'; *>"


@pytest.fixture(autouse=True, scope="module")
def everything_is_imported() -> None:
    """Have a run import what it needs: pytester forgets what is imported within it."""
    lone = Network("lone", [Agent("clerk", can_respond=True, default=True)])
    with harness(lone, model=script([respond("done")])) as h:
        assert h.run("hello").result().text == "done"


def failure(pytester: pytest.Pytester, body: str) -> pytest.RunResult:
    pytester.makepyfile(HEAD + "def test_it():\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    found = pytester.runpytest_inprocess(*OPTIONS)
    found.assert_outcomes(failed=1)
    return found


def test_the_failure_on_the_page_about_tests_is_what_pytest_says(pytester: pytest.Pytester) -> None:
    body = 'result = run(execute_tool("price", item="tea"))\nassert result.status == "completed"'
    found = failure(pytester, body)
    for line in taken("docs/testing.md: E  ").text.splitlines():
        assert line in found.stdout.lines


@pytest.mark.parametrize(
    "compared",
    ['assert result.status == "completed"', 'assert result.text == "a cup of tea"', 'assert "tea" in result.text'],
)
def test_what_is_compared_is_told_with_the_cause(pytester: pytest.Pytester, compared: str) -> None:
    found = failure(pytester, f'result = run(execute_tool("price", item="tea"))\n{compared}')
    found.stdout.fnmatch_lines(TOO_SHORT)
    assert str(found.stdout).count("script_exhausted") == 1


@pytest.mark.parametrize(
    "asserted",
    ["assert [call.result for call in calls] == [3]", "assert calls", "assert len(calls) == 1", "calls[0]"],
)
def test_a_call_that_is_missing_is_told_with_the_refusal(pytester: pytest.Pytester, asserted: str) -> None:
    body = f'calls = run(execute_tool("price", itm="tea"), respond("tea")).tool_calls()\n{asserted}'
    found = failure(pytester, body)
    found.stdout.fnmatch_lines(f"*{REFUSED}")
    assert str(found.stdout).count("arguments_invalid") == 1
    assert ("Runs of the harness" in str(found.stdout)) == ("== [3]" not in asserted)


def test_an_entry_for_an_agent_that_is_not_there_is_told_with_the_one_that_is(pytester: pytest.Pytester) -> None:
    decision = '{"agent": "clrk", "action": "RESPOND", "action_details": {"payload": {"message": "done"}}}'
    found = failure(pytester, f'result = run({decision})\nassert result.status == "completed"')
    found.stdout.fnmatch_lines(
        "*nothing left for agent clerk, and entries for agent 'clrk', *; did you mean 'clerk'?>*"
    )


@pytest.mark.parametrize("asserted", ['assert result.text == "paid"', "assert not result.tool_calls()"])
def test_a_call_that_failed_is_told_with_what_its_tool_raised(pytester: pytest.Pytester, asserted: str) -> None:
    moves = 'execute_tool("find", booking="B-99"), respond("done")'
    found = failure(pytester, f"result = run({moves})\n{asserted}")
    found.stdout.fnmatch_lines(
        "*<run completed *: done; 1 call failed: find: tool_exception: LookupError: "
        "there is no booking B-99 (test_*.py:12)>*"
    )


@pytest.mark.parametrize(
    ("policy", "lack"),
    [("", "the harness was given no policy"), ("policy=[], ", "the policy that the harness was given has none")],
)
@pytest.mark.parametrize("asserted", ['assert result.text == "3"', "assert result.tool_calls()"])
def test_a_call_that_is_denied_for_want_of_a_policy_is_told_with_the_policy_to_give(
    pytester: pytest.Pytester, policy: str, lack: str, asserted: str
) -> None:
    given = f'{policy}tools=TOOLS, model=script([execute_tool("price", item="tea"), respond("done")])'
    shown = failure(
        pytester, f'with harness(LONE, {given}) as h:\n    result = h.run("hi").result()\n{asserted}'
    ).stdout
    cure = 'harness(…, policy="policies.yaml") gives it those of that file, and policy=[[]{"name": "ask-first", *}]'
    shown.fnmatch_lines(
        f"*; 1 call was refused: price: no rule allows it, since {lack}: {cure} one that opens a gate>*"
    )
    shown.no_fnmatch_line("*towpath new policy*")


def test_an_answer_that_is_no_text_is_told_and_no_run_of_a_test_before(pytester: pytest.Pytester) -> None:
    before = 'def test_before():\n    assert run(respond("of before")).text == "of before"\n\n\n'
    body = 'result = run(respond({"cups": 2}))\nassert result.text == "tea"'
    pytester.makepyfile(HEAD + before + "def test_it():\n" + "".join(f"    {line}\n" for line in body.splitlines()))
    found = pytester.runpytest_inprocess(*OPTIONS)
    found.assert_outcomes(passed=1, failed=1)
    found.stdout.fnmatch_lines('E*<run completed *: {"cups": 2}>')
    assert "of before" not in str(found.stdout)


def test_of_many_runs_the_last_three_are_told_and_of_a_long_answer_its_beginning(pytester: pytest.Pytester) -> None:
    body = 'for n in range(4):\n    result = run(respond(f"{n}" * 999 + "\\x1b[2J"))\nassert result.status == "failed"'
    told = [
        line for line in str(failure(pytester, body).stdout).splitlines() if line.startswith("E         <run completed")
    ]
    assert [line.partition(": ")[2][0] for line in told] == ["1", "2", "3"]
    assert {len(line) for line in told} == {len("E         ") + 160}
    assert all(line.endswith("…") for line in told)


def test_without_a_harness_nothing_is_added(pytester: pytest.Pytester) -> None:
    testing_runs.RETURNED.clear()
    found = failure(pytester, 'assert "tea" == "salt"')
    assert "<run " not in str(found.stdout) and "Runs of the harness" not in str(found.stdout)


def test_what_changes_the_terminal_is_named(pytester: pytest.Pytester) -> None:
    found = failure(pytester, 'assert run(respond("\\x1b[2Jtea")).status == "failed"')
    assert "⟨U+001B⟩[2Jtea>" in str(found.stdout)


def test_an_error_that_says_what_is_wrong_is_shown_in_the_test_alone(pytester: pytest.Pytester) -> None:
    body = """
with harness(LONE, policy=ALLOWED, tools=TOOLS, model=script([respond("tea")])) as h:
    h.run("hello")
    h.next_gate()
""".strip()
    shown = failure(pytester, body).stdout
    shown.fnmatch_lines([">*h.next_gate()", "E*NoGateError: no gate: the run completed with 'tea'*"])
    shown.no_fnmatch_line("*/sync.py:*")
    shown.no_fnmatch_line("*asyncio*")
    pytester.runpytest_inprocess(*OPTIONS, "--full-trace").stdout.fnmatch_lines(["*sync.py:*", "E*NoGateError*"])


@pytest.mark.parametrize("opened", ["with harness(LONE) as h:\n    pass", "towpath_harness(LONE)"])
def test_a_network_whose_tools_were_not_given_is_told_at_the_line_that_opens_the_harness(
    pytester: pytest.Pytester, opened: str
) -> None:
    body = "".join(f"    {line}\n" for line in opened.splitlines())
    pytester.makepyfile(f"{HEAD}def test_it(towpath_harness):\n{body}")
    shown = pytester.runpytest_inprocess(*OPTIONS).stdout
    shown.fnmatch_lines([f">*{opened.partition(chr(10))[0]}", "E*test_*.py:*: lone: *tools=[[]price, find])*"])
    shown.no_fnmatch_line("*contextlib*")
    shown.no_fnmatch_line("harness.py:*")


def test_an_error_of_another_kind_is_shown_down_to_where_it_was_raised(pytester: pytest.Pytester) -> None:
    body = "with harness(LONE, policy=ALLOWED, tools=TOOLS) as h:\n    h._harness = None\n    h.next_gate()"
    failure(pytester, body).stdout.fnmatch_lines([">*h.next_gate()", "E*AttributeError*", "*sync.py:*"])


def test_a_test_of_a_project_that_imports_what_there_is_not_is_told_what_there_is(pytester: pytest.Pytester) -> None:
    tools = pytester.mkdir("tools")
    (tools / "lifts.py").write_text("free = 1\n")
    pytester.makeini("[pytest]\npythonpath = .\n")
    pytester.makepyfile(test_module="from tools import lift", test_name="from tools.lifts import fre")
    plain = pytester.runpytest_subprocess()
    plain.stdout.fnmatch_lines(["Hint: make sure your test modules*"])
    pytester.path.joinpath("towpath.yaml").write_text("kind: Project\n")
    told = pytester.runpytest_subprocess()
    told.stdout.fnmatch_lines(["test_module.py: tools has no 'lift'; did you mean 'lifts'?"])
    told.stdout.fnmatch_lines(["test_name.py: tools.lifts has no 'fre'; did you mean 'free'?"])
    told.stdout.no_fnmatch_line("Hint: *")
