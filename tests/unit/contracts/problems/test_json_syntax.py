"""What is wrong with a text that should be JSON is told in words of whoever wrote it."""

import json

import pytest

from towpath_contracts.problems.json_syntax import describe_json_error


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it is empty (line 1, column 1)"),
        ("{a: 1}", "a name in double quotes belongs there (line 1, column 2: at `{a: 1}`)"),
        ("{'a': 1}", "a name in double quotes belongs there (line 1, column 2: at `{'a': 1}`)"),
        ('{"a" 1}', "a colon is missing there, after the name (line 1, column 6"),
        ('{"a": 1\n "b": 2}', "a comma is missing there, or the end of the list or object (line 2, column 2"),
        (
            '{"a": True}',
            "a value belongs there: text in double quotes, a number, true, false, null, […] or {…}",
        ),
        ('["a]', "the text that begins there is not closed with a double quote (line 1, column 2"),
        ('["a\n"]', "a text has no line breaks or tabs in it: write \\n or \\t (line 1, column 4"),
        ('["C:\\x"]', "a backslash in a text is written twice: \\\\ (line 1, column 5"),
        ('["\\u12"]', "a backslash in a text is written twice: \\\\"),
        ("{} {}", "something stands after the end (line 1, column 4: at `{} {}`)"),
    ],
)
def test_the_parser_is_put_into_plain_words(text: str, said: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert describe_json_error(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"network": "support",', '(line 1, column 23: the text ends behind `{"network": "support",`)'),
        ('{"network": "support",\n\n', '(line 3, column 1: the text ends behind `{"network": "support",`)'),
        ('{"a": 1\n "b": ' + "2" * 99 + "}", '(line 2, column 2: at `"b": 2222222222222222222`)'),
        ('["a\n"]', '(line 1, column 4: at `["a`)'),
    ],
)
def test_the_text_around_the_fault_is_shown_in_short(text: str, place: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert describe_json_error(caught.value).endswith(place)


def test_a_comma_before_the_end_is_told_by_every_version_of_the_parser() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads('{"a": 1,}')
    told = describe_json_error(caught.value)
    assert told.startswith(("a name in double quotes belongs there", "a comma stands before the end"))


def test_what_is_no_fault_of_syntax_stays_as_it_is() -> None:
    assert describe_json_error(ValueError("too many digits")) == "too many digits"
