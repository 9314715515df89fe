"""A condition that was asked before the origin of values was read never lets a call pass by not finding it."""

import pytest
from tests.unit.tas.test_careful_example import asked, bundle, known

from towpath_tas.adapters.cel import compile_condition, compile_grant
from towpath_tas.core.policy.conditions import ConditionResult
from towpath_tas.core.provenance.provenance_messages import MEMBERS, WHOLE, origin_members

EVIL = {"to": ["eve@evil.example"]}
MENTIONS = (
    "has(origin.worst_sink)",
    "!has(origin.worst_sink)",
    "has( origin . args.to )",
    "has(\norigin.worst)",
    '"worst_sink" in origin',
    "origin == {}",
    "origin != {}",
    "size(origin) > 3",
    "[origin].exists(o, has(o.worst_sink))",
    '{"o": origin}.o != {}',
    "origin in [{}]",
)
HIDDEN = (
    r"""r"\" == "x" || has(origin.worst_sink)""",
    "'''it's''' == \"x\" || has(origin.worst_sink)",
    '"""a"b""" == "x" || has(origin.worst_sink)',
    "1 == 2 // it's not\n || has(origin.worst_sink)",
    r"""R'\' == "x" || has(origin.worst_sink) || r'\' == "y" """,
)
UNSURE = (
    "has(origin.worst_sink) && origin.worst_sink == 'untrusted'",
    "'worst_sink' in origin && origin['worst_sink'] == 'untrusted'",
    "origin != {} && origin.worst_sink == 'untrusted'",
)


def policy(when: str, effect: str) -> str:
    lines = when.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    rest = "" if effect == "allow" else "  - {name: all, tool: '*', effect: allow}\n"
    return f'kind: Policy\nrules:\n{rest}  - {{name: asks, tool: "*", effect: {effect}, when: "{lines}"}}\n'


@pytest.mark.parametrize("when", HIDDEN)
def test_what_could_hide_that_a_condition_asks_for_origin_is_refused_and_would_be_seen(when: str) -> None:
    assert WHOLE in origin_members(when)
    with pytest.raises(ValueError, match=r"comment|raw|three quotes"):
        compile_condition(when)


@pytest.mark.parametrize("when", MENTIONS)
@pytest.mark.parametrize("origin", [{}, {"writes": True, "hazards": []}])
def test_a_condition_that_could_find_origin_missing_is_unclear_until_all_of_it_was_read(
    when: str, origin: dict[str, object]
) -> None:
    assert WHOLE in origin_members(when)
    scene = {"args": {}, "run": {}, "agent": {}, "caller": "", "origin": origin}
    assert compile_condition(when)(scene) is ConditionResult.UNCLEAR
    whole = dict.fromkeys(MEMBERS, "x") | {"args": {"to": "x"}}
    assert compile_condition(when)({**scene, "origin": whole}) is not ConditionResult.UNCLEAR


@pytest.mark.parametrize("when", UNSURE)
@pytest.mark.parametrize("effect", ["deny", "require_approval"])
@pytest.mark.parametrize("tool", ["mail.send", "read"])
def test_a_rule_that_asks_whether_a_member_is_there_makes_the_service_read_it(
    when: str, effect: str, tool: str
) -> None:
    found = bundle(policy(when, effect))
    blind = found.authorize(asked(tool, EVIL if tool == "mail.send" else {"body": "x"}))
    assert (blind.effect, blind.needs_origin) == (effect, True)
    if tool == "mail.send":
        assert found.authorize(found.with_origin(asked(tool, EVIL), known())).effect == effect
        safe = {"to": ["ann@acme.example"]}
        assert found.authorize(found.with_origin(asked(tool, safe), known())).effect == "allow"


def test_a_rule_that_allows_where_a_member_is_missing_allows_nothing_that_was_not_read() -> None:
    found = bundle(policy("!has(origin.worst_sink) || origin.worst_sink == 'task'", "allow"))
    blind = found.authorize(asked("mail.send", EVIL))
    assert (blind.effect, blind.needs_origin) == ("deny", True)
    assert found.authorize(found.with_origin(asked("mail.send", EVIL), known())).effect == "deny"


def test_a_grant_that_asks_whether_a_member_is_there_is_read_too() -> None:
    grant = ({"tool": "x", "when": "1 == 2"}, {"tool": "*", "when": "!has(origin.worst_sink)"})
    assert compile_grant(grant[1]["when"])({"origin": {}}) is ConditionResult.UNCLEAR
    found = bundle("kind: Policy\nrules: [{name: all, tool: '*', effect: allow}]")
    blind = found.authorize(asked("mail.send", EVIL, grants=(grant,)))
    assert (blind.effect, blind.needs_origin) == ("deny", True)


def test_what_can_be_told_without_reading_still_needs_no_reading() -> None:
    found = bundle(policy("origin.writes && origin.worst == 'untrusted'", "deny"))
    decision = found.authorize(asked("read", {"body": "x"}))
    assert (decision.effect, decision.needs_origin) == ("allow", False)
    assert WHOLE not in origin_members("has(args.to) && origin.worst == 'untrusted'")
