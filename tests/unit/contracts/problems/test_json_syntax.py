"""What is wrong with a text that should be JSON is told in words of whoever wrote it."""

import json
import time

import pytest

from towpath_contracts.problems.json_syntax import describe_json_error, describe_json_fault


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
        ('["a\n"]', "a text is not closed with a double quote in its line, or has a tab or line break in it"),
        ('["a,\n]"]', "a text is not closed with a double quote in its line"),
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
        ('{"a": 1\n "b": ' + "2" * 99 + "}", '(line 2, column 2: at `"b": 2222222222222222222`)'),
        ('["a\n"]', '(line 1, column 4: at `["a`)'),
        ('{"a_long_name": "long text" 1}', '(line 1, column 29: at `"long text" 1}`)'),
        ('{"a": "onelongtextwithoutspaces" 1}', "(line 1, column 34: at `1}`)"),
    ],
)
def test_the_text_around_the_fault_is_shown_in_whole_words(text: str, place: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert describe_json_error(caught.value).endswith(place)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '{"network": "support",',
            'the text ends behind `{"network": "support",`: the object that begins in line 1 is not closed with }',
        ),
        ('[{"a": "]}"}\n, [1\n\n', "the text ends behind `, [1`: the list that begins in line 2 is not closed with ]"),
        ('{"a": {"b": 1}', 'the text ends behind `{"a": {"b": 1}`: the object that begins in line 1 is not closed'),
        ('{"a":', 'the text ends behind `{"a":`: the object that begins in line 1 is not closed with }'),
    ],
)
def test_a_text_that_ends_too_early_is_told_with_what_is_not_closed(text: str, said: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert describe_json_error(caught.value).startswith(said)


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ('[{"action": "RESPOND",}]', 1, 'a comma stands before }; take it out (column 22: at `"RESPOND",}]`)'),
        ('["a",\n "b",\n]', 2, 'a comma stands before ]; take it out (column 5: at `"b",`)'),
    ],
)
def test_a_comma_before_the_end_is_told_at_the_comma(text: str, line: int, said: str) -> None:
    """Whichever version of the parser reads it: some of them name what stands behind it."""
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    assert describe_json_fault(caught.value) == (line, said)
    of_newer = json.JSONDecodeError("Illegal trailing comma before end of object", text, text.rindex(","))
    assert describe_json_fault(of_newer) == (line, said)


def test_what_is_no_fault_of_syntax_stays_as_it_is() -> None:
    assert describe_json_error(ValueError("too many digits")) == "too many digits"


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        ('{"password": "hunter22"x}', '`"…`'),
        ('{"password": "hunter22" "a": 1}', '`"…`'),
        ('{"password": "hunter22", "a" 1}', '`"a" 1}`'),
        ('{"password": "hunter22", , 1}', '`"…", , 1}`'),
        ('{"password" "hunter22"}', '`{"password" "…"}`'),
        ("{'client_secret': 'hunter22'}", "`{'client_secret': '…`"),
        ('{"apiKey": hunter22}', '`{"apiKey": …}`'),
        ('{"access_token": "hunter22\nhunter23"}', '`"…`'),
        ('{"access_token": "hunter22', '`"…`'),
        ('{"access_token": "' + "hunter22" * 99, '`"…`'),
        ('{"access_token": "hunter22"', '`ccess_token": "…"`'),
        ('{"max_tokens": "12" x}', '`"12" x}`'),
        ('{"max_output_tokens": 12 3}', "`12 3}`"),
        ('{"password": 12x}', "`…}`"),
        ('{"password": ["hunter22" "hunter23"]}', '`["…" "…"]}`'),
        ('{"passwords": ["hunter21", "hunter22" "hunter23"]}', '`"…" "…"]}`'),
        ('{"access_tokens": {"mail": ["hunter,]22" "hunter23"]}, "a": 1}', '`"…"]}, "a": 1}`'),
        ('{"credentials": {"user": "hunter2" "value": 1}}', '`"…" "…": …}}`'),
        ('{"password": ["hunter22", \'hunter23\'', "`'…'`"),
        ('{"password" ["hunter22"]}', '`{"password" ["…"]}`'),
        ('{"password": ["hunter22"], "a" 1}', '`"a" 1}`'),
        ('{"password": -5 6}', "`…}`"),
        ('{"key": "billing" "a": 1}', '`"billing" "a": 1}`'),
    ],
)
def test_the_value_of_a_key_that_is_called_like_a_secret_is_left_out(text: str, excerpt: str) -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads(text)
    for said in (describe_json_error(caught.value), describe_json_fault(caught.value)[1]):
        assert "hunter" not in said
        assert excerpt in said


def test_signs_that_nobody_sees_are_escaped_in_what_is_shown() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads('{"a": "\u202eb\u200b", \x1b[2Jx\rc}')
    assert describe_json_error(caught.value).endswith('at `"\\u202eb\\u200b", \\u001b[2Jx\\rc}`)')
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads('{"a": "\u202eb",')
    assert 'behind `{"a": "\\u202eb",`' in describe_json_error(caught.value)


def test_what_is_shown_of_a_long_text_is_found_soon() -> None:
    """Names that look like the beginning of a secret's do not add up."""
    began = time.thread_time()
    for part in ("password", '"password": "', "a.", '"', '"password": [', '"password": ["a"], '):
        with pytest.raises(json.JSONDecodeError) as caught:
            json.loads("[" + part * (1_000_000 // len(part)))
        describe_json_error(caught.value)
    assert time.thread_time() - began < 2
