"""What is said to words that are no command."""

import pytest

from towpath.cli import main


@pytest.mark.parametrize("typed", ["deploy", "start", "gates decide"])
def test_a_word_that_no_command_is_like_gets_the_commands_and_no_suggestion(
    typed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(typed.split())
    said = " ".join(capsys.readouterr().err.split())
    assert stopped.value.code == 2 and "Unknown command" in said and "Available commands" in said
    assert "Did you mean" not in said
