"""In which line of a prompt a fault is.

Whoever checks a prompt knows the line of its text. Where the prompt stands in a file, its reader takes that away again
and names the line of the file.
"""

import re

_AT_LINE = re.compile(r"\bline (\d+) of its prompt_template: ")


def in_prompt_line(prompt: str, line: int, said: str) -> str:
    """Return what is *said* of *line* of a prompt behind its number, where the prompt has several lines."""
    return f"line {line} of its prompt_template: {said}" if "\n" in prompt.rstrip("\n") else said


def split_prompt_line(detail: str) -> tuple[int | None, str]:
    """Return the line of a prompt that *detail* names, and the detail without it; None where it names none."""
    found = _AT_LINE.search(detail)
    if found is None:
        return None, detail
    return int(found[1]), detail[: found.start()] + detail[found.end() :]
