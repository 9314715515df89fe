"""What the API answers, as pages have it: always what can be written again; and paths that lead nowhere else."""

import json

import httpx2
import pytest

from towpath_console.api import Api, ApiRefusalError, read_json


def api_of(asked: list[str], answer: httpx2.Response | None = None) -> Api:
    def told(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.path)
        return answer or httpx2.Response(200, json={})

    return Api(httpx2.MockTransport(told), {})


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b'{"a": 1e3, "b": 1e999}', {"a": 1000.0, "b": "1e999"}),
        (b"[NaN, -Infinity, 1.5e300]", ["NaN", "-Infinity", 1.5e300]),
        (b'["\\ud83d", "\\ud83d\\ude00", {"\\ude00": 1}]', ["\ufffd", "\U0001f600", {"\ufffd": 1}]),
        (b"[%s, %s]" % (b"9" * 4_000, b"9" * 4_001), [int("9" * 4_000), "9" * 4_001]),
        (b"[%s]" % (b"9" * 5_000), ["9" * 5_000]),
        (b"[%s.5, 1.25E+999]" % (b"9" * 309), ["9" * 309 + ".5", "1.25E+999"]),
        (b"-2e999", "-2e999"),
    ],
)
def test_what_nobody_can_write_as_json_is_read_as_text(written: bytes, read: object) -> None:
    found = read_json(written)
    assert found == read
    assert json.loads(json.dumps(found, ensure_ascii=False, allow_nan=False).encode()) == read


@pytest.mark.parametrize("name", ["..", ".", "../keys", "a?b", "a#b", "a\x00b", "a\tb", "a//b", "\u202e", "a\\b", ""])
async def test_a_name_that_nothing_has_is_not_asked_for(name: str) -> None:
    asked: list[str] = []
    with pytest.raises(ApiRefusalError) as refused:
        await api_of(asked).post(f"/v1/runs/{name}/cancel")
    assert (refused.value.status, asked) == (404, [])


async def test_a_question_that_is_too_long_and_an_answer_that_is_none_are_refusals() -> None:
    with pytest.raises(ApiRefusalError) as refused:
        await api_of([]).get("/v1/runs", q="x" * 100_000)
    assert refused.value.status == 414
    with pytest.raises(ApiRefusalError) as refused:
        await api_of([], httpx2.Response(200, content=b"[" * 100_000)).get("/v1/runs")
    assert refused.value.status == 502
