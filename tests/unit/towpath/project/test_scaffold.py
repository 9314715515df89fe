"""`towpath init` writes a project that holds together, and writes over nothing."""

import ast
import re
import stat
from configparser import ConfigParser
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

from towpath.cli import main
from towpath.networks.spec_files import load_network
from towpath.project.file_schemas import file_schema
from towpath.project.project_file import ProjectFile, read_project
from towpath.project.scaffold import add_agent, add_network, add_rule, add_tool, create_project, write_schemas
from towpath_contracts.problems.registry import ProblemError
from towpath_tas.adapters.cel import compile_condition
from towpath_tas.core.policy.policy_file import read_policy

PROJECT = ProjectFile(kind="Project", networks=Path("networks"), policy=Path("policies.yaml"), tools=(Path("tools"),))


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def schema_of(path: Path) -> Path:
    """Return the file that the first line of *path* names as its schema."""
    line = path.read_text("utf-8").splitlines()[0]
    assert line.startswith("# yaml-language-server: $schema=")
    return path.parent / line.partition("=")[2]


def test_every_yaml_file_names_a_schema_that_lies_there_and_that_it_fits(tmp_path: Path) -> None:
    create_project(tmp_path)
    add_network(tmp_path, PROJECT, "research")
    written = sorted(tmp_path.rglob("*.yaml"))
    assert [path.name for path in written] == [
        "research.yaml", "support.yaml", "policies.yaml", "evaluation.yaml", "verdicts.yaml", "towpath.yaml"
    ]  # fmt: skip
    for path in written:
        schema = schema_of(path)
        assert schema.resolve().is_relative_to(tmp_path.resolve() / ".towpath" / "schema")
        content = yaml.safe_load(path.read_text("utf-8"))
        validator = jsonschema_rs.validator_for(yaml.safe_load(schema.read_text("utf-8")))
        assert [error.message for error in validator.iter_errors(content)] == []


def test_the_project_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_project(tmp_path)
    monkeypatch.chdir(tmp_path)
    found = read_project()
    assert found.tool_modules() == ("tools/orders.py",)
    assert found.policy == Path("policies.yaml")
    assert found.single_person
    assert load_network("networks/support.yaml").model == "scripted:support"
    assert not read_policy(Path("policies.yaml").read_text("utf-8"), compile_condition).problems


def test_what_is_in_the_way_is_listed_and_nothing_is_written(tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("mine")
    (tmp_path / ".gitignore").symlink_to("nowhere")
    with pytest.raises(ProblemError) as refused:
        create_project(tmp_path)
    assert refused.value.problem.code == "files_exist"
    assert [one.detail for one in refused.value.problem.errors] == [
        str(tmp_path / "AGENTS.md"), str(tmp_path / ".gitignore")
    ]  # fmt: skip
    assert files_in(tmp_path) == {"AGENTS.md": b"mine"}
    assert (tmp_path / ".gitignore").is_symlink()


def test_a_file_in_place_of_the_folder_is_in_the_way(tmp_path: Path) -> None:
    place = tmp_path / "shop"
    place.write_text("mine")
    with pytest.raises(ProblemError, match="shop"):
        create_project(place)
    assert place.read_text() == "mine"


def test_what_a_platform_will_keep_is_closed_to_others(tmp_path: Path) -> None:
    create_project(tmp_path)
    assert stat.S_IMODE((tmp_path / ".towpath").stat().st_mode) == 0o700


def test_schemas_are_written_anew(tmp_path: Path) -> None:
    create_project(tmp_path)
    place = tmp_path / ".towpath" / "schema" / "network.json"
    place.write_text("{}")
    assert Path(".towpath/schema/network.json") in write_schemas(tmp_path)
    assert yaml.safe_load(place.read_text("utf-8")) == file_schema("network")


def test_an_agent_is_added_below_the_others_and_no_other_line_changes(tmp_path: Path) -> None:
    create_project(tmp_path)
    file = tmp_path / "networks" / "support.yaml"
    before = file.read_text("utf-8")
    added = add_agent(tmp_path, PROJECT, "shipping")
    assert added.paths == (Path("networks/support.yaml"),)
    assert added.next_step == (
        "in networks/support.yaml, let another agent hand over to it, such as triage: "
        "allowed_routes: [billing, shipping]"
    )
    after = file.read_text("utf-8")
    assert after.startswith(before)
    assert [agent.key for agent in load_network(file).agents] == ["triage", "billing", "shipping"]
    with pytest.raises(ProblemError, match="shipping"):
        add_agent(tmp_path, PROJECT, "shipping")
    assert file.read_text("utf-8") == after


def test_an_agent_is_added_in_the_middle_of_a_file_in_its_own_indentation(tmp_path: Path) -> None:
    (tmp_path / "networks").mkdir()
    file = tmp_path / "networks" / "a.yaml"
    file.write_text("name: a\nagents:\n- key: one\n  prompt_template: |\n    Do it.\n\n# The end.\nmax_steps: 3")
    add_agent(tmp_path, PROJECT, "two", "a")
    assert [agent.key for agent in load_network(file).agents] == ["one", "two"]
    assert file.read_text("utf-8").endswith("    {tool_history}\n\n# The end.\nmax_steps: 3\n")


def test_a_list_in_one_line_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "networks").mkdir()
    file = tmp_path / "networks" / "a.yaml"
    file.write_text("{name: a, agents: [{key: one}]}\n")
    with pytest.raises(ProblemError, match="by hand"):
        add_agent(tmp_path, PROJECT, "two")
    assert file.read_text() == "{name: a, agents: [{key: one}]}\n"


def test_of_several_networks_one_is_named(tmp_path: Path) -> None:
    create_project(tmp_path)
    add_network(tmp_path, PROJECT, "research")
    with pytest.raises(ProblemError, match="research, support"):
        add_agent(tmp_path, PROJECT, "shipping")
    with pytest.raises(ProblemError, match="no network is called 'suport'"):
        add_agent(tmp_path, PROJECT, "shipping", "suport")
    add_agent(tmp_path, PROJECT, "shipping", "research")


def test_an_empty_project_can_be_read_and_is_filled_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--empty", "-o", "table"]) == 0
    assert sorted(str(path) for path in Path().rglob("*") if path.is_file() and ".towpath" not in path.parts) == [
        *(
            ".gitignore",
            "AGENTS.md",
            "networks/.gitkeep",
            "policies.yaml",
            "pytest.ini",
            "skills/towpath/SKILL.md",
            "tools/.gitkeep",
            "towpath.yaml",
        )
    ]
    links = re.findall(r"\]\(([^)#:]+)\)", Path("AGENTS.md").read_text("utf-8"))
    assert links and all(Path(link).is_file() for link in links)
    found = read_project()
    assert (found.tool_modules(), found.networks, found.policy) == ((), Path("networks"), Path("policies.yaml"))
    assert policy_problems() == ()
    said = [line.split("   #")[0].split() for line in capsys.readouterr().out.splitlines()]
    advised = [words[1:] for words in said if words[:2] == ["towpath", "new"]]
    assert [words[1] for words in advised] == ["tool", "network"]
    for words in advised:
        assert main(words) == 0
    assert read_project().tool_modules() == ("tools/stock_count.py",)
    (agent,) = load_network("networks/stock.yaml").agents
    assert (agent.key, agent.equipped_tools) == ("assistant", ("stock.count",))
    assert '"tool_params": {"item": "item"}' in Path("networks/stock.json").read_text("utf-8")
    assert Path("tests/test_stock.py").is_file()
    assert yaml.safe_load(Path("policies.yaml").read_text("utf-8"))["rules"][0]["who"] == {"network": "stock"}
    assert policy_problems() == ()


def policy_problems() -> tuple[object, ...]:
    """Return what is wrong with the policy in this folder."""
    return tuple(read_policy(Path("policies.yaml").read_text("utf-8"), compile_condition).problems)


def test_the_first_rule_of_a_policy_that_has_none_ends_its_lines_as_the_file_does(tmp_path: Path) -> None:
    path = tmp_path / "policies.yaml"
    path.write_bytes(b"rules: [ ] # none yet\r\nkind: Policy\r\n")
    add_rule(tmp_path, PROJECT, "ask", "stock.*")
    assert b"\n" not in path.read_bytes().replace(b"\r\n", b"")
    assert yaml.safe_load(path.read_bytes())["rules"][0]["tool"] == "stock.*"


def test_pytest_reads_the_settings_of_a_project(tmp_path: Path) -> None:
    create_project(tmp_path)
    settings = ConfigParser()
    settings.read(tmp_path / "pytest.ini")
    assert dict(settings["pytest"]) == {
        "pythonpath": ".", "asyncio_mode": "auto", "asyncio_default_fixture_loop_scope": "function"
    }  # fmt: skip


def test_a_tool_is_python_and_bears_its_name(tmp_path: Path) -> None:
    create_project(tmp_path)
    (path,) = add_tool(tmp_path, PROJECT, "weather.look-up").paths
    text = (tmp_path / path).read_text("utf-8")
    assert path == Path("tools/weather_look_up.py")
    assert "weather.look-up" in text
    assert [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)] == ["weather_look_up"]
    assert add_tool(tmp_path, PROJECT, "import").paths == (Path("tools/import_.py"),)


def test_a_rule_is_added_to_the_policy_which_is_made_where_there_is_none(tmp_path: Path) -> None:
    bare = ProjectFile(kind="Project")
    added = add_rule(tmp_path, bare, "first", "a.*")
    assert added.next_step.startswith("add in policies.yaml whose calls it is about, such as who: {network: NAME}, and")
    assert "policy: policies.yaml" in added.next_step
    add_rule(tmp_path, bare, "second")
    read = read_policy((tmp_path / "policies.yaml").read_text("utf-8"), compile_condition)
    assert [(rule.name, rule.tool, rule.effect) for rule in read.rules] == [
        ("first", "a.*", "require_approval"), ("second", "*", "require_approval")
    ]  # fmt: skip


def test_a_rule_says_what_becomes_of_whose_calls(tmp_path: Path) -> None:
    create_project(tmp_path, empty=True)
    who = ("network=stock", "agent=a*")
    assert add_rule(tmp_path, PROJECT, "count", "a.b", effect="allow", who=who).next_step == (
        "where it is not about every call, add a condition in policies.yaml, such as when: args.amount <= 100"
    )
    (rule,) = yaml.safe_load((tmp_path / "policies.yaml").read_text("utf-8"))["rules"]
    assert "note" not in rule, "an approver would read words that nobody wrote"
    assert (rule["who"], rule["effect"]) == ({"network": "stock", "agent": "a*"}, "allow")
    before = files_in(tmp_path)
    for wrong in ("stock", "net=stock", "network=", "network=a b"):
        with pytest.raises(ProblemError, match="project, network, agent, agent_type, caller, and not"):
            add_rule(tmp_path, PROJECT, "other", who=(wrong,))
    assert files_in(tmp_path) == before


@pytest.mark.parametrize("name", ["", "a b", "../a", "9a", "a" * 65])
def test_names_that_no_file_could_bear_are_refused(tmp_path: Path, name: str) -> None:
    for add in (add_network, add_tool, add_agent, add_rule):
        with pytest.raises(ProblemError, match="is no name here"):
            add(tmp_path, PROJECT, name)
    assert files_in(tmp_path) == {}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("bad name", "did you mean 'bad_name'?"),
        ("9 lives!", "did you mean 'lives'?"),
        ("", ""),
        ("größe", ""),
        ("a" * 65, f"did you mean '{'a' * 64}'?"),
    ],
)
def test_a_name_that_can_be_used_is_suggested(tmp_path: Path, name: str, meant: str) -> None:
    with pytest.raises(ProblemError) as refused:
        add_tool(tmp_path, PROJECT, name)
    assert refused.value.problem.detail.endswith(meant)
    assert ("did you mean" in refused.value.problem.detail) is bool(meant)


def test_a_project_with_mistakes_is_refused_with_all_of_them_and_their_lines(tmp_path: Path) -> None:
    file = tmp_path / "towpath.yaml"
    file.write_text("kind: Project\nnetwork: networks\ntools: tools\n")
    with pytest.raises(ProblemError) as refused:
        read_project(file)
    assert refused.value.problem.code == "project_invalid"
    assert sorted(one.detail for one in refused.value.problem.errors) == [
        f"{file}:2: there is no field 'network'; did you mean 'networks'?",
        f'{file}:3: a list belongs here, not "tools": write [tools], or in YAML a dash before each entry',
    ]  # fmt: skip


def test_missing_files_and_other_mistakes_of_a_project_are_told_in_one_round(tmp_path: Path) -> None:
    file = tmp_path / "towpath.yaml"
    file.write_text("kind: Project\nworkers: tools/\npolicy: polices.yaml\nmcp: 4\ntools: [gone.py, 7]\n")
    with pytest.raises(ProblemError) as refused:
        read_project(file)
    told = [one.detail for one in refused.value.problem.errors]
    assert f"{file}:2: there is no field 'workers'; here it is 'tools'" in told
    assert {f"{file}:3: polices.yaml does not exist", f"{file}:5: gone.py does not exist"} < {*told}
    assert len(told) == 5


def test_a_project_that_names_what_is_not_there_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "towpath.yaml"
    file.write_text("kind: Project\npolicy: polices.yaml\ntools: [tool]\n")
    with pytest.raises(ProblemError) as refused:
        read_project(file)
    assert [one.detail for one in refused.value.problem.errors] == [
        f"{file}:2: polices.yaml does not exist", f"{file}:3: tool does not exist"
    ]  # fmt: skip


def test_the_command_says_what_it_wrote_and_what_is_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "shop", "-o", "table"]) == 0
    said = capsys.readouterr().out
    assert "created towpath.yaml" in said
    assert [line.strip() for line in said.splitlines()[-4:-1]] == ["cd shop", "towpath test", "towpath up"]
    assert main(["init", "shop"]) == 1
    assert "files_exist" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path / "shop")
    assert main(["new", "agent", "shipping", "-o", "table"]) == 0
    assert "networks/support.yaml" in capsys.readouterr().out
    assert main(["schema", "netwrok"]) == 3
    assert "did you mean network" in capsys.readouterr().err


def test_a_file_in_place_of_a_folder_of_the_project_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "tests").write_text("mine")
    (tmp_path / ".towpath").symlink_to("nowhere")
    with pytest.raises(ProblemError) as refused:
        create_project(tmp_path)
    assert [one.detail for one in refused.value.problem.errors] == [str(tmp_path / "tests"), str(tmp_path / ".towpath")]
    assert files_in(tmp_path) == {"tests": b"mine"}
    with pytest.raises(ProblemError, match="tests"):
        create_project(tmp_path / "tests" / "shop")
    with pytest.raises(ProblemError, match=r"\.towpath"):
        write_schemas(tmp_path)
    with pytest.raises(ProblemError, match="tests"):
        add_rule(tmp_path, ProjectFile(kind="Project", policy=Path("tests/policies.yaml")), "first")


def test_what_is_added_to_a_file_ends_its_lines_as_the_file_does(tmp_path: Path) -> None:
    create_project(tmp_path)
    file = tmp_path / "policies.yaml"
    before = file.read_bytes().replace(b"\n", b"\r\n")
    file.write_bytes(before.rstrip(b"\r\n"))
    add_rule(tmp_path, PROJECT, "last")
    after = file.read_bytes()
    assert after.startswith(before)
    assert after.count(b"\n") == after.count(b"\r\n") > before.count(b"\n")
    assert "last" in [rule.name for rule in read_policy(after.decode(), compile_condition).rules]
