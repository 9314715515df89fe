"""What is wrong with a text that should be YAML is told with the cure of that very case."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from time import process_time
from typing import Any

import pytest
import yaml

from towpath.cli.broker.broker_user_list import load
from towpath.cli.definitions.grant_options import read_grant
from towpath.errors import RefusedError
from towpath.project.project_file import ProjectFile
from towpath.project.scaffold import add_agent
from towpath_contracts.problems.registry import ProblemError, problem
from towpath_embedded.network_files.network_folder import NetworkFolderPublisher
from towpath_readings.yaml_lines import describe_yaml_fault, locate_yaml_fault

OTHERWISE = "this line is indented otherwise than those it belongs to"

EITHER = "indent this line to column 5, beside `b`, or to column 1, beside `a`"


IN_LINES = "a colon and a space inside the text that begins in line {}; quote the whole of it"

OR_TEXT = ". If it goes on with the text of line 1, quote the whole of that"


def begins(column: int, above: str, other: int) -> str:
    told = f"begins in column {column}, but {above} above it, which it belongs beside, in column {other}"
    return f"{told}: indent this line by"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("a:\n  b: 1\n   c: 2\n", 3, f"`c` {begins(4, '`b`', 3)} one space less"),
        ("a:\n  - b: 1\n     c: 2\n", 3, f"`c` {begins(6, '`b`', 5)} one space less"),
        ("a:\n  - b: 1\n   c: 2\n", 3, f"`c` {begins(4, '`b`', 5)} one more space"),
        ("a:\n     b: 1\n   c: 2\n", 3, f"`c` {begins(4, '`b`', 6)} 2 more spaces"),
        (
            "a:\n    b: 1\n  c: 2\n",
            3,
            f"`c` begins in column 3, where nothing above it does: {EITHER}",
        ),
        ("a: x\n\n b: 2\n", 3, f"`b` {begins(2, '`a`', 1)} one space less"),
        ("a:\n  - b: 1\n    c: 2\n - b: 3\n", 4, f"the dash {begins(2, 'the dash', 3)} one more space"),
        ("a:\n  - b: |\n      note: this is text\n     c: 2\n", 4, f"`c` {begins(6, '`b`', 5)} one space less"),
        ("a:\n  - b\n # note: no key\n  c: 1\n", 4, f"`c` {begins(3, '`a`', 1)} 2 spaces less"),
        ("passwords:\n  b: 1\n   c: 2\n", 3, f"this line {begins(4, 'the one', 3)} one space less"),
        ("a:\n- b: x\n  c:\n  - d\n   e: 1\n", 5, f"`e` {begins(4, '`c`', 3)} one space less"),
        ("a:\n  - b: x\n    c:\n    - d\n     e: 1\n", 5, f"`e` {begins(6, '`c`', 5)} one space less"),
        ("a:\n- b:\n  - c: 1\n  - d\ne: 1\n f: 1\n", 6, f"`f` {begins(2, '`e`', 1)} one space less"),
        ("a:\n- b\n - c: 1\n", 3, f"the dash {begins(2, 'the dash', 1)} one space less"),
        ("a:\n  'b': 1\n   'c': 2\n", 3, f"`c` {begins(4, '`b`', 3)} one space less"),
        ("a:\n  b: [c,\n d: 1]\n   e: 2\n", 4, f"`e` {begins(4, '`b`', 3)} one space less"),
        ("a:\n  b: x\n  d: 'y\n     sk-2: z'\n    c: 2\n", 5, f"`c` {begins(5, '`d`', 3)} 2 spaces less"),
        ("a:\n  b: x\n  c: 'y\n     sk-2: z' d\n", 4, "the quoted text that begins in line 3 ends before this text"),
        ("a:\n  b: x\n  c: 'y\n     sk-2: z': d\n", 4, "the quoted text that begins in line 3 ends before this text"),
        (
            "prompt: You help\n  all of them\n  and say: hello\nb: 1\n",
            3,
            f"{IN_LINES.format(1)}, or write it in the lines below `prompt: |`",
        ),
        ("- You help\n  and say: hello\n", 2, f"{IN_LINES.format(1)}, or write it in the lines below `- |`"),
        ("secrets:\n  a: You help\n   and say: hello\n", 3, IN_LINES.format(2)),
        (
            "prompt: You help\n  note: hello\n",
            2,
            f"`note` {begins(3, '`prompt`', 1)} 2 spaces less{OR_TEXT}",
        ),
        ("a:\n  b: 1\n -c\n", 3, OTHERWISE),
        ("note: shop: the big one\n", 1, 'a colon and a space inside a text; quote it: note: "shop: the big one"'),
        ('- tip: a "b": c # d\n', 1, 'a colon and a space inside a text; quote it: tip: "a \\"b\\": c"'),
        (
            "name: shop: the big one\n",
            1,
            "a colon and a space inside a text. A name has neither; write name: shop_the_big_one",
        ),
        ("- key: a b: c\n", 1, "a colon and a space inside a text. A name has neither; write key: a_b_c"),
        ("a: {b} c\n", 1, 'a text that begins with { is read as a mapping; quote it: a: "{b} c"'),
        ("a: 'b' c\n", 1, "the value ends before this text; quote the whole of it"),
    ],
)
@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
def test_each_fault_of_the_form_has_its_own_cure(
    loader: Any, text: str, line: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towpath_readings.yaml_lines._LOADER", loader)
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose(text, Loader=loader)
    assert describe_yaml_fault(caught.value, text) == (line, said)


@pytest.mark.parametrize(
    "text",
    [
        "password: hunter2: x\n",
        "passwords:\n - hunter2: a: b\n",
        "passwords:\n- hunter2: a: b\n",
        "mail:\n  credentials:\n    # of the host\n\n    hunter2: a: b\n",
        "smtp:\n  client_secret: {a} hunter2\n",
        "a: {password: 1, b: hunter2: c}\n",
        "token: *hunter2\n",
        "tokens:\n  - - *hunter2\n",
    ],
)
@pytest.mark.parametrize("loader", [yaml.SafeLoader, yaml.CSafeLoader])
def test_nothing_is_repeated_of_a_line_below_a_key_that_is_called_like_a_secret(loader: Any, text: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose(text, Loader=loader)
    told = locate_yaml_fault("mail.yaml", caught.value, text)
    assert told.startswith("mail.yaml:") and "not YAML: " in told
    assert "hunter" not in told


def test_what_stands_beside_a_secret_is_shown() -> None:
    text = "smtp:\n  password:\n    - x\n  host: a: b\n"
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose(text, Loader=yaml.SafeLoader)
    assert describe_yaml_fault(caught.value, text)[1].endswith('quote it: host: "a: b"')


def test_signs_that_nobody_sees_are_escaped_in_what_is_shown() -> None:
    text = "a\u200b: b: \u202ec\n"
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose(text, Loader=yaml.SafeLoader)
    assert describe_yaml_fault(caught.value, text)[1].endswith('quote it: a⟨U+200B⟩: "b: \\u202ec"')


@pytest.mark.parametrize("line", ["- " * 150_000, "x: " * 100_000, " " * 300_000])
def test_a_long_line_is_told_about_in_the_time_that_it_is_read_in(line: str) -> None:
    text = f'kind: Policy\na: "\n  {line}\n "\nx:\n    b: 1\n  c: 2\n{line}: 1'
    with pytest.raises(yaml.YAMLError) as caught:
        yaml.compose(text, Loader=yaml.CSafeLoader)
    began = process_time()
    assert describe_yaml_fault(caught.value, text)[1].startswith("`c` begins in column 3, where nothing above")
    of_the_line = yaml.YAMLError("mapping values are not allowed here")
    of_the_line.problem_mark = yaml.Mark("", 0, 7, 0, None, None)  # type: ignore[attr-defined]
    assert describe_yaml_fault(of_the_line, text)[0] == 8
    assert process_time() - began < 1


async def _publish(path: Path) -> None:
    told: list[str] = []
    await NetworkFolderPublisher(path, "", told.append).publish_changed()
    raise ProblemError(problem("network_invalid", "\n".join(told)))


async def _add_agent(path: Path) -> None:
    project = ProjectFile.model_validate({"kind": "Project", "networks": path.name})
    add_agent(path.parent, project, "shipping")


async def _load_credentials(path: Path) -> None:
    load(path)


async def _read_grant(path: Path) -> None:
    read_grant(path)


@pytest.mark.parametrize("read", [_publish, _add_agent, _load_credentials, _read_grant])
async def test_whatever_reads_a_file_shows_no_line_of_a_secret_in_it(
    read: Callable[[Path], Awaitable[None]], tmp_path: Path
) -> None:
    path = tmp_path / "part.yaml"
    path.write_text("kind: Network\npasswords:\n  - hunter22: hunter23: x\n")
    with pytest.raises((ProblemError, RefusedError)) as refused:
        await read(path)
    said = refused.value.problem.detail
    assert "part.yaml:3: not YAML: a colon and a space inside a text" in said
    assert "hunter" not in said


def test_a_quoted_text_is_taken_as_it_is_advised() -> None:
    assert yaml.safe_load('tip: "a \\"b\\": c"') == {"tip": 'a "b": c'}
