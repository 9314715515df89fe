"""The peers' environments: what can't be installed says why."""

from pathlib import Path

import pytest

from comparison.environments import NotInstalledError, install, last_line
from comparison.systems import PEERS, Peer


def test_a_peer_that_cannot_be_installed_says_why(tmp_path: Path) -> None:
    broken = Peer(title="Broken", requirements=("no such requirement !",))
    with pytest.raises(NotInstalledError, match=r"^\S*uv pip: "):
        install("broken", broken, tmp_path)


def test_a_missing_program_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV", str(tmp_path / "missing"))
    with pytest.raises(NotInstalledError, match="No such file"):
        install("postgres", PEERS["postgres"], tmp_path)


def test_every_requirement_is_bounded() -> None:
    for peer in PEERS.values():
        for requirement in [*peer.requirements, *([peer.npm] if peer.npm else [])]:
            assert ">=" in requirement
            assert "<" in requirement


@pytest.mark.parametrize(("text", "line"), [("a\nb\n\n", "b"), ("", "no message"), ("x" * 300, "x" * 200)])
def test_the_last_line_of_an_error_is_what_is_told(text: str, line: str) -> None:
    assert last_line(text) == line
