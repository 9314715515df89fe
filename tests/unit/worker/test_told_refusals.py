"""Why there is no worker is what stands out at a terminal; in a file or a pipe it is a plain line."""

import sys

import pytest

from towpath.errors import DeclarationError
from towpath_worker.__main__ import USAGE_ERROR, _say


@pytest.mark.parametrize(
    ("is_terminal", "environment", "written"),
    [
        (True, {}, "\n\x1b[1;31mtowpath worker: no [tools]\x1b[0m\n"),
        (True, {"NO_COLOR": "1"}, "\n\x1b[1mtowpath worker: no [tools]\x1b[0m\n"),
        (True, {"TERM": "dumb"}, "\ntowpath worker: no [tools]\n"),
        (False, {}, "towpath worker: no [tools]\n"),
    ],
)
def test_at_a_terminal_the_refusal_is_red_below_what_was_logged(
    is_terminal: bool,
    environment: dict[str, str],
    written: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in ({"TERM": "xterm", "COLORTERM": ""} | environment).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal)
    assert _say(DeclarationError("no [tools]")) == USAGE_ERROR
    assert capsys.readouterr().err == written
