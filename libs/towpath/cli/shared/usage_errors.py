"""What a person typed that the parser can't read: the parser's panel, and what to do where that says nothing."""

from typing import Any

from cyclopts import CoercionError, CycloptsError, UnusedCliTokensError

MAX_WORDS = 8
"""Words that are repeated; a whole file may have been pasted."""


def usage_panel(error: CycloptsError) -> Any:
    """Return what is shown for *error*."""
    from cyclopts.panel import CycloptsPanel  # here, because every command would pay for it

    return CycloptsPanel(_text_of(error))


def _text_of(error: CycloptsError) -> str | CycloptsError:
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        words = [str(word) for word in error.unused_tokens[:MAX_WORDS]]
        more = " …" if len(error.unused_tokens) > MAX_WORDS else ""
        return (
            f"The command takes no more words, and there are: {' '.join(words)}{more}. "
            "Quote a text that has spaces, as in towpath run support 'Refund order 8812'; "
            "the command with --help says what it takes."
        )
    if isinstance(error, CoercionError):
        return str(error).replace("int|Literal[auto]", "a whole number or auto")
    return error
