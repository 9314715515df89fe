"""Docstrings in the forms people write them."""

from collections.abc import Callable
from typing import Any

import pytest

from towpath.tools.docstrings import parse_docstring


def written(text: str | None) -> Callable[..., Any]:
    """Return a function with this docstring."""

    def function() -> None:
        return None

    function.__doc__ = text
    return function


GOOGLE = """Do it.

    Explain
    more.

    Args:
        a: The a.
        b (int, optional): The b
            goes on: here.
        *rest: The rest.

    Returns:
        c: not a parameter.

    Raises:
        ValueError: never.
    """

SPHINX = """Do it.

    Explain
    more.

    :param a: The a.
    :param int b: The b
        goes on: here.
    :param rest: The rest.
    :returns: c
    :rtype: int
    """

NUMPY = """Do it.

    Explain
    more.

    Parameters
    ----------
    a : str
        The a.
    b : int, optional
        The b
        goes on: here.
    *rest
        The rest.

    Returns
    -------
    c
        Not a parameter.
    """


@pytest.mark.parametrize("text", [GOOGLE, SPHINX, NUMPY], ids=["google", "sphinx", "numpy"])
def test_the_three_forms_say_the_same(text: str) -> None:
    found = parse_docstring(written(text))
    assert found.description == "Do it.\n\nExplain\nmore."
    assert found.parameters == {"a": "The a.", "b": "The b goes on: here.", "rest": "The rest."}


@pytest.mark.parametrize("text", [None, "", "   \n  "])
def test_nothing_written_says_nothing(text: str | None) -> None:
    found = parse_docstring(written(text))
    assert (found.description, found.parameters) == ("", {})


def test_text_after_a_section_is_description_again() -> None:
    found = parse_docstring(written("Do it.\n\n    Args:\n        a: The a.\n\n    And mind the gap.\n"))
    assert found.description == "Do it.\n\n\nAnd mind the gap."
    assert found.parameters == {"a": "The a."}


def test_a_word_that_looks_like_a_heading_stays_in_the_text() -> None:
    found = parse_docstring(written("Notes are kept.\n\nExamples of it abound"))
    assert found.description == "Notes are kept.\n\nExamples of it abound"
