"""Reads what a docstring says about a function and its parameters, in the styles of Google, NumPy and Sphinx.

griffe parses; here its sections become what a model is shown. Text in no known form stays in the description, and a
docstring is never a reason to refuse a tool.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Docstring:
    """What a docstring says: the description (sections left out) and one text per parameter."""

    description: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def parse_docstring(function: Callable[..., object]) -> Docstring:
    """Return what the docstring of *function* says; empty where there is none."""
    text = inspect.cleandoc(function.__doc__ or "")
    if not text:
        return Docstring()
    import griffe  # noqa: PLC0415 - costs 0.1 s, which only processes that declare tools need to pay

    written = griffe.Docstring(text)
    sections: list[griffe.DocstringSection] = []
    for sections in (
        griffe.parse_google(written, trim_doctest_flags=False, warnings=False),
        griffe.parse_numpy(written, trim_doctest_flags=False, warnings=False),
        griffe.parse_sphinx(written, warnings=False),
    ):
        if any(section.kind is not griffe.DocstringSectionKind.text for section in sections):
            break  # the first style that finds a section of its own is the docstring's
    parameters = {
        entry.name.lstrip("*"): " ".join(entry.description.split())
        for section in sections
        if isinstance(section, griffe.DocstringSectionParameters)
        for entry in section.value
    }
    texts = [section.value for section in sections if isinstance(section, griffe.DocstringSectionText)]
    return Docstring(description="\n\n\n".join(texts).strip(), parameters=parameters)
