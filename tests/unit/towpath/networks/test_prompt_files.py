"""A prompt in a file of its own is read, and a path that stands as a text is told."""

import warnings
from pathlib import Path

import pytest

from towpath import Agent, Network
from towpath.cli.definitions.networks_commands import _check_form
from towpath.errors import DeclarationError
from towpath.networks.prompt_files import is_prompt_path

PROGRAM = """
from pathlib import Path
from towpath import Agent
clerk = Agent("clerk", prompt=Path("prompts/clerk.md"), can_respond=True, default=True)
"""


def declared(folder: Path) -> Agent:
    """Run the program of *folder* and return its agent."""
    names: dict[str, Agent] = {}
    exec(compile(PROGRAM, str(folder / "desk.py"), "exec"), names)
    return names["clerk"]


def test_a_prompt_is_read_from_the_file_beside_the_program(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "clerk.md").write_text("You answer.\n")
    agent = declared(tmp_path)
    assert Network("desk", [agent]).to_spec().agents[0].prompt_template == "You answer.\n"


def test_a_prompt_file_that_is_not_there_is_told_with_the_line_and_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "clrek.md").write_text("You answer.\n")
    with pytest.raises(DeclarationError) as caught:
        Network("desk", [declared(tmp_path)]).to_spec()
    assert str(caught.value).startswith(f"{tmp_path / 'desk.py'}:4: the prompt of agent 'clerk': ")
    assert "clerk.md is not there; did you mean" in str(caught.value) and "clrek.md" in str(caught.value)


def test_a_text_that_names_a_file_is_told() -> None:
    with pytest.warns(UserWarning, match=r"test_prompt_files.py:\d+: the prompt of agent 'clerk'") as told:
        Network("desk", [Agent("clerk", prompt="prompts/clerk.md", can_respond=True, default=True)]).to_spec()
    assert "write prompt=Path('prompts/clerk.md')" in str(told[0].message)


def test_a_text_that_a_function_returns_is_taken_as_it_is() -> None:
    agent = Agent("clerk", prompt=lambda: "notes.md", can_respond=True, default=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Network("desk", [agent]).to_spec()


def test_a_network_file_whose_prompt_names_a_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "desk.yaml"
    file.write_text(
        "kind: Network\nname: desk\nmodel: gemini:gemini-2.5-flash\nagents:\n"
        "  - {key: clerk, is_default: true, allow_respond: true, prompt_template: prompts/clerk.md}\n"
    )
    (note,) = _check_form(file)
    assert note.startswith("the prompt of clerk is the words prompts/clerk.md, and no file is read")


@pytest.mark.parametrize(
    ("prompt", "is_path"),
    [("clerk.md", True), ("prompts/a.txt", True), ("Read notes.md", False), ("You answer.", False), ("", False)],
)  # fmt: skip
def test_only_one_word_that_ends_like_a_file_is_a_path(prompt: str, is_path: bool) -> None:
    assert is_prompt_path(prompt) is is_path
