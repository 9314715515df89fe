"""Networks and policies as people write them: in Python, in YAML, and wrongly."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from towpath import Agent, DeclarationError, Network, RefusedError, load_network, load_policy, tool
from towpath.networks.network import network_of
from towpath.networks.spec_files import locate_refusal, read_yaml
from towpath_contracts.network_checks.network_agents import check_network
from towpath_contracts.networks.spec import AgentSpec, NetworkSpec
from towpath_contracts.problems.registry import problem


class Answer(BaseModel):
    text: str


@tool(name="orders.find")
def find() -> None:
    """Find."""


def test_a_network_in_python_is_the_network_in_yaml(tmp_path: Path) -> None:
    built = Network(
        "support",
        [
            Agent("triage", prompt="Route.", routes=["billing"], default=True),
            Agent("billing", tools=[find, "refund"], can_respond=True, model="gemini:x", guidance="Be kind."),
        ],
        model="scripted:task",
        max_steps=20,
        description="Help.",
    ).to_spec()
    file = tmp_path / "support.yaml"
    file.write_text(
        """
kind: Network
name: support
description: Help.
model: scripted:task
max_steps: 20
agents:
  - {key: triage, prompt_template: Route., allowed_routes: [billing], is_default: true}
  - key: billing
    equipped_tools: [orders.find, refund]
    allow_respond: true
    model: gemini:x
    respond_guidance: Be kind.
"""
    )
    assert isinstance(built, NetworkSpec)
    assert load_network(file) == built


@pytest.mark.parametrize("name", ["tools", "routes"])
def test_a_text_where_a_list_belongs_is_refused_with_the_cure(name: str) -> None:
    with pytest.raises(DeclarationError) as caught:
        Agent("clerk", **{name: "orders.find"})  # type: ignore[arg-type]
    assert str(caught.value).partition(": ")[2] == f"agent 'clerk': {name} is a list: write {name}=['orders.find']"


def test_what_an_answer_must_look_like_is_a_model_or_a_schema() -> None:
    schema = {"type": "object"}
    first = Agent("a", output=Answer, default=True, can_respond=True)
    agents = Network("n", [first, Agent("b", output=schema), AgentSpec(key="c")]).to_spec().agents
    assert agents[0].respond_schema == Answer.model_json_schema()
    assert agents[1].respond_schema == schema
    assert agents[2].key == "c"


def test_an_agent_brings_those_along_that_its_routes_lead_to() -> None:
    expert = Agent("expert", model="gemini:x", default=True)
    repairs = Agent("repairs", prompt="You mend lamps.", routes=[expert, "triage"])
    triage = Agent("triage", model="openai:y", routes=[Agent("billing"), repairs, expert])
    spec = network_of(triage).to_spec()
    assert (spec.name, spec.model) == ("triage", "openai:y")
    assert [
        (one.key, one.model, one.is_default, one.allow_respond, list(one.allowed_routes)) for one in spec.agents
    ] == [
        ("triage", "openai:y", True, True, ["billing", "repairs", "expert"]),
        ("billing", None, False, True, []),
        ("repairs", None, False, True, ["expert", "triage"]),
        ("expert", "gemini:x", False, True, []),
    ]


def test_agents_in_routes_are_no_agents_of_a_network_that_does_not_list_them() -> None:
    triage = Agent("triage", routes=[Agent("billing")], default=True, can_respond=True)
    with pytest.raises(RefusedError, match="billing"):
        Network("desk", [triage]).to_spec()
    with pytest.raises(RefusedError, match="b is declared twice"):
        network_of(Agent("a", routes=[Agent("b"), Agent("b", prompt="Another one.")])).to_spec()


def test_a_name_that_can_not_be_used_is_told_with_one_that_can() -> None:
    with pytest.raises(RefusedError, match="did you mean 'my_shop'") as refused:
        Network("my shop", [Agent("first clerk", default=True, can_respond=True)]).to_spec()
    assert "did you mean 'first_clerk'?" in str(refused.value)


def test_every_mistake_of_form_is_named_at_once() -> None:
    with pytest.raises(RefusedError) as caught:
        Network("has space", [Agent("a b"), Agent("c", display_name=3)], max_steps=0).to_spec()  # type: ignore[arg-type]
    assert caught.value.code == "network_invalid"
    pointers = {one.pointer for one in caught.value.problem.errors}
    assert pointers == {"/name", "/agents/0/key", "/agents/1/display_name", "/max_steps"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name: a b\nagents: []\n", [":1: "]),
        ("name: n\nagents:\n  - key: a\n    wrong: 1\n  - key: b\n    is_default: maybe\n", [":4: ", ":6: "]),
        ("name: n\n", [":1: "]),
        ("name: n\nname: m\nagents: []\n", [":2: ", "'name' is given twice, in lines 1 and 2; keep one"]),
        ("{name: n, name: m, agents: []}\n", [":1: ", "'name' is given twice, in line 1; keep one"]),
        ("agents: []\n", [":1: ", "'name' is missing: add it, such as name: support"]),
        ("agents: [\n", ["not YAML"]),
        ("- a\n- b\n", [":1: ", "begin with a key"]),
        ("", [":1: ", "empty"]),
        ("name: !!python/object/apply:os.getcwd []\nagents: []\n", ["not YAML"]),
        ("a: &a [*a]\nname: n\nagents: []\n", [":1: "]),
    ],
)
def test_a_wrong_file_is_refused_with_its_lines(tmp_path: Path, text: str, expected: list[str]) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(text)
    with pytest.raises(RefusedError) as caught:
        load_network(file)
    assert caught.value.code == "network_invalid"
    for part in expected:
        assert part in caught.value.problem.detail
    assert str(file) in caught.value.problem.detail


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("|\n      You help.\n\n      Use {toolz}.\n", "7: desk: {toolz} is no placeholder; did you mean {tools}?"),
        (">-\n      You help.\n\n      Use {toolz}.\n", "4: desk: line 2 of its prompt_template: {toolz} is no"),
        ("Use {toolz}.\n", "4: desk: {toolz} is no placeholder; did you mean {tools}?"),
    ],
)
def test_a_fault_of_a_prompt_is_told_in_its_own_line_of_the_file(tmp_path: Path, written: str, told: str) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text(f"name: desk\nagents:\n  - key: desk\n    prompt_template: {written}")
    (fault,) = (one for one in check_network(load_network(file)) if one.code == "placeholder_unknown")
    refused = locate_refusal(file, RefusedError(problem("network_invalid", "", errors=[fault])))
    assert refused.problem.detail.startswith(f"{file}:{told}")
    assert refused.problem.errors[0].pointer == "/agents/0/prompt_template"


def test_the_key_of_a_wrong_value_is_named(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text("name: desk\nagents:\n  - {key: desk, is_default: maybe}\nmodel: 3\n")
    with pytest.raises(RefusedError) as caught:
        load_network(file)
    said = caught.value.problem.detail.replace(str(file), "desk.yaml")
    assert said == (
        'desk.yaml:3: is_default: true or false belongs here, not "maybe"; '
        "desk.yaml:4: model: a text belongs here, not 3; quote it"
    )


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    large = tmp_path / "large.yaml"
    large.write_bytes(b"#" * 2_000_001)
    with pytest.raises(RefusedError, match=r"network_invalid: .*binary\.yaml:1: this is not UTF-8"):
        load_network(binary)
    with pytest.raises(RefusedError, match=r"file_missing: .*missing\.yaml is not there\. Correct"):
        load_network(tmp_path / "missing.yaml")
    with pytest.raises(RefusedError, match="larger than 2000000 bytes"):
        load_network(large)


def test_a_file_that_is_read_again_has_values_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "network.yaml"
    file.write_text("base: &base {tools: [a, b]}\nother:\n  <<: *base\n  key: 1\n")
    first, lines, _ = read_yaml(file, "network_invalid")
    as_written = {"base": {"tools": ["a", "b"]}, "other": {"tools": ["a", "b"], "key": 1}}
    assert first == as_written
    first["base"]["tools"].append("c")
    again, lines_again, _ = read_yaml(file, "network_invalid")
    assert again == as_written
    assert lines_again.of("/other/key") == lines.of("/other/key") == 4


@pytest.mark.parametrize("merged", ["3", "[*base, 3]"])
def test_a_file_with_a_wrong_merge_is_refused_however_often_it_is_read(tmp_path: Path, merged: str) -> None:
    file = tmp_path / "network.yaml"
    file.write_text(f"base: &base {{tools: [a]}}\nother:\n  <<: {merged}\n  key: 1\n")
    for _ in range(2):
        with pytest.raises(RefusedError, match=r"network\.yaml:3: not YAML: expected a mapping"):
            read_yaml(file, "network_invalid")


def test_a_bomb_of_aliases_does_not_go_off(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    file = tmp_path / "bomb.yaml"
    file.write_text("\n".join(lines) + "\nname: n\nagents: []\n")
    with pytest.raises(RefusedError, match="there is no field 'a0'"):
        load_network(file)


def test_a_policy_is_read_as_text(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("kind: Policy\nrules:\n  - {name: all, tool: '*', effect: deny}\n")
    policy = load_policy(file)
    assert policy.text == file.read_text()
    assert policy.source == str(file)


@pytest.mark.parametrize("text", ["kind: Network\n", "rules: 3\n", "rules: [\n"])
def test_what_is_no_policy_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    with pytest.raises(RefusedError, match=r"policy_invalid: .*policy\.yaml:\d"):
        load_policy(file)
