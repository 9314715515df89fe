"""What the egress proxy of a sandbox takes for a request, and what it passes on of one."""

import h11
import pytest

from towpath import ToolError
from towpath.tools.proxy_request import ProxyRequest, proxy_request


def read(text: bytes) -> h11.Request:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(text.replace(b"\n", b"\r\n"))
    event = connection.next_event()
    assert isinstance(event, h11.Request)
    return event


@pytest.mark.parametrize(
    ("asked", "host", "port"),
    [
        (b"CONNECT api.example.com:443 HTTP/1.1\nHost: api.example.com:443\n\n", "api.example.com", 443),
        (b"CONNECT API.example.com:443 HTTP/1.1\nHost: api.EXAMPLE.com\n\n", "api.example.com", 443),
        (b"CONNECT api.example.com:443 HTTP/1.0\n\n", "api.example.com", 443),
        (b"CONNECT [2606:2800:220:1::1]:443 HTTP/1.1\nHost: [2606:2800:220:1::1]:443\n\n", "2606:2800:220:1::1", 443),
    ],
)
def test_a_tunnel_names_a_host_and_a_port(asked: bytes, host: str, port: int) -> None:
    assert proxy_request(read(asked)) == ProxyRequest(host=host, port=port)


@pytest.mark.parametrize(
    ("target", "host", "place", "path"),
    [
        (b"http://a.test/x?y=z", ("a.test", 80), b"a.test", b"/x?y=z"),
        (b"HTTP://A.test:80", ("a.test", 80), b"a.test", b"/"),
        (b"http://a.test:8080?y", ("a.test", 8080), b"a.test:8080", b"/?y"),
        (b"http://[::1]:81/", ("::1", 81), b"[::1]:81", b"/"),
    ],
)
def test_a_plain_request_is_written_anew_for_its_server(
    target: bytes, host: tuple[str, int], place: bytes, path: bytes
) -> None:
    header = place if place != b"a.test" else b"a.test:80"
    head = b"GET " + target + b" HTTP/1.1\nHost: " + header + b"\nX-Own: 1\nConnection: X-Hop, close\nX-Hop: 2\n"
    found = proxy_request(read(head + b"Proxy-Authorization: Basic c2VjcmV0\nUpgrade: websocket\n\n"))
    assert (found.host, found.port) == host
    assert found.head is not None
    assert found.head.target == path
    assert [*found.head.headers] == [(b"host", place), (b"x-own", b"1"), (b"connection", b"close")]


def test_a_body_has_one_length_for_every_reader() -> None:
    lines = b"POST http://a.test/ HTTP/1.1\nHost: a.test\nContent-Length: 5\nTransfer-Encoding: chunked\n\n"
    found = proxy_request(read(lines))
    assert found.head is not None
    assert dict(found.head.headers) == {b"host": b"a.test", b"transfer-encoding": b"chunked", b"connection": b"close"}


@pytest.mark.parametrize(
    "asked",
    [
        b"CONNECT api.example.com HTTP/1.1\nHost: api.example.com\n\n",
        b"CONNECT api.example.com:0 HTTP/1.1\nHost: a\n\n",
        b"CONNECT api.example.com:65536 HTTP/1.1\nHost: a\n\n",
        b"CONNECT user@api.example.com:443 HTTP/1.1\nHost: api.example.com:443\n\n",
        b"CONNECT api.example.com:443@evil.test:443 HTTP/1.1\nHost: evil.test:443\n\n",
        b"CONNECT api.example.com%00.evil.test:443 HTTP/1.1\nHost: evil.test:443\n\n",
        b"CONNECT http://api.example.com:443 HTTP/1.1\nHost: api.example.com:443\n\n",
        b"CONNECT [fe80::1%25eth0]:443 HTTP/1.1\nHost: [fe80::1%25eth0]:443\n\n",
        b"CONNECT a.test:443 HTTP/1.1\nHost: b.test:443\n\n",
        b"CONNECT a.test:443 HTTP/1.1\nHost: a.test:444\n\n",
        b"GET / HTTP/1.1\nHost: a.test\n\n",
        b"GET https://a.test/ HTTP/1.1\nHost: a.test\n\n",
        b"GET ftp://a.test/ HTTP/1.1\nHost: a.test\n\n",
        b"GET http://user:secret@a.test/ HTTP/1.1\nHost: a.test\n\n",
        b"GET http://a.test/ HTTP/1.1\nHost: b.test\n\n",
        b"GET http://a.test/ HTTP/1.1\nHost: a.test:81\n\n",
        b"GET http://a.test:81/ HTTP/1.1\nHost: a.test:80\n\n",
        b"GET http:///x HTTP/1.1\nHost: a.test\n\n",
        b"GET http://a.test\\@b.test/ HTTP/1.1\nHost: a.test\n\n",
        b"OPTIONS * HTTP/1.1\nHost: a.test\n\n",
    ],
)
def test_what_could_be_taken_for_two_places_is_refused(asked: bytes) -> None:
    with pytest.raises(ToolError) as refused:
        proxy_request(read(asked))
    assert refused.value.code == "http_url_invalid"
    assert "secret" not in str(refused.value)
