"""What a person typed that the parser can't read: the parser's panel, and what to do where that says nothing."""

import re
from typing import Any

from cyclopts import CoercionError, CycloptsError, UnknownCommandError, UnusedCliTokensError

MAX_WORDS = 8
"""Words that are repeated; a whole file may have been pasted."""

_NEAR = 0.7
"""How much of two names has to be alike for one to be a slip of the other: `rnus` is 0.75 like `runs`, and `deploy` 0.6
like `demo`, which the parser would suggest."""

_SUGGESTED = re.compile(r' Did you mean "([^"]*)"\?')


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
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        return _with_near_names_only(str(error), str(error.unused_tokens[0]))
    if isinstance(error, CoercionError):
        return str(error).replace("int|Literal[auto]", "a whole number or auto")
    return error


def _with_near_names_only(text: str, typed: str) -> str:
    """Return *text* without the suggestion of a command that nobody means by *typed*."""
    from difflib import SequenceMatcher

    found = _SUGGESTED.search(text)
    if found is None or SequenceMatcher(None, typed, found[1]).ratio() >= _NEAR:
        return text
    return text.replace(found[0], "", 1)
