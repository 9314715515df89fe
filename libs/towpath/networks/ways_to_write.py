"""How a cure is written in a file of a network, and how in a program that builds one.

The checks of a network know neither: they say both, as in `is_default: true` (in Python default=True).
"""

import re

_BOTH = re.compile(r"`\w+: true`(?P<between>[^`]*?) \(in Python (?P<keyword>\w+=True)\)")


def as_in_python(detail: str) -> str:
    """Return *detail* with keywords in the place of the fields of a file."""
    return _BOTH.sub(r"\g<keyword>\g<between>", detail).replace(" of its prompt_template: ", " of its prompt: ")


def as_in_a_file(detail: str) -> str:
    """Return *detail* without the keywords of Python."""
    return _BOTH.sub(lambda both: both[0].rpartition(" (in Python")[0], detail)
