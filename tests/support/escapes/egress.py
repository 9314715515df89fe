"""Attempts to reach more than was granted, through the proxy of a sandbox with egress; without a sandbox, directly.

Where there is neither a proxy nor a network, all of them fail.
"""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.escapes.attempts import FACTS, attempt, some

PROXY = urlsplit(os.environ.get("HTTP_PROXY", ""))
GRANTED = "127.0.0.1"
FIND_SOCKETS = """
import os, socket
for name in os.listdir("/proc/self/fd"):
    try:
        if int(name) > 2 and os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
            print(name)
    except OSError:
        pass
"""


def opened(host: str, port: int, *, authority: str = "", host_header: str = "") -> socket.socket:
    """Return a connection to a place: a tunnel of the proxy where there is one."""
    if not PROXY.hostname:
        if host.endswith(".test"):
            raise PermissionError("only the test's process resolves this name")
        return socket.create_connection((host, port), 2)
    client = socket.create_connection((PROXY.hostname, PROXY.port or 0), 2)
    name = authority or (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    client.settimeout(5)
    client.sendall(f"CONNECT {name} HTTP/1.1\r\nHost: {host_header or name}\r\n\r\n".encode())
    answer = b""
    while b"\r\n\r\n" not in answer and (piece := client.recv(1)):
        answer += piece
    if not answer.startswith(b"HTTP/1.1 200"):
        client.close()
        raise PermissionError(answer.partition(b"\r\n")[0].decode() or "closed")
    return client


def reached(host: str, port: int, *, authority: str = "", host_header: str = "") -> str:
    opened(host, port, authority=authority, host_header=host_header).close()
    return f"reached {host} at {port}"


def answer_to(request: bytes) -> bytes:
    """Send *request* as it is, to the proxy or to the server that is granted, and read to the end."""
    place = (PROXY.hostname, PROXY.port or 0) if PROXY.hostname else (GRANTED, FACTS["granted"])
    with socket.create_connection(place, 2) as client:
        client.settimeout(5)
        client.sendall(request)
        answer = bytearray()
        with contextlib.suppress(OSError):
            while piece := client.recv(1 << 20):
                answer += piece
    return bytes(answer)


def get(path: str = "/", *hosts: str) -> bytes:
    lines = [f"GET http://{GRANTED}:{FACTS['granted']}{path} HTTP/1.1", *(f"Host: {host}" for host in hosts)]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


@attempt
def another_port_of_the_granted_host() -> str:
    return reached(GRANTED, FACTS["postgres"])


@attempt
def another_host_at_the_granted_port() -> str:
    return reached("127.0.0.2", FACTS["granted"])


@attempt
def broker_that_was_granted() -> str:
    return reached(GRANTED, FACTS["nats"])


@attempt
def gateway_that_was_granted() -> str:
    return reached(GRANTED, FACTS["gateway"])


@attempt
def database_by_a_name_of_the_loopback() -> str:
    return reached("localhost", FACTS["postgres"])


@attempt
def database_inside_an_ipv6_address() -> str:
    return reached("::ffff:127.0.0.1", FACTS["postgres"])


@attempt
def database_by_a_number() -> str:
    return reached("2130706433", FACTS["postgres"])


@attempt
def metadata_by_name() -> str:
    return reached("metadata.test", 80)


@attempt
def metadata_by_address() -> str:
    return reached("169.254.169.254", 80)


@attempt
def metadata_by_a_number() -> str:
    return reached("2852039166", 80)


@attempt
def metadata_inside_an_ipv6_address() -> str:
    return reached("::ffff:169.254.169.254", 80)


@attempt
def name_that_moves_after_the_check() -> str:
    """What listens at the first address of the name says so; at the second there is the secret."""
    with opened("rebound.test", FACTS["rebound"]) as client:
        said = client.recv(10)
    if said != b"secret":
        raise PermissionError(f"it was {said!r}")
    return "the second address"


@attempt
def user_name_before_another_host() -> str:
    return reached(GRANTED, FACTS["postgres"], authority=f"{GRANTED}:{FACTS['granted']}@{GRANTED}:{FACTS['postgres']}")


@attempt
def user_name_before_the_granted_host() -> str:
    return reached(GRANTED, FACTS["granted"], authority=f"me:secret@{GRANTED}:{FACTS['granted']}")


@attempt
def line_break_in_the_place() -> str:
    own = f"{GRANTED}:{FACTS['granted']}"
    authority = f"{own} HTTP/1.1\r\nHost: {own}\r\n\r\nCONNECT {GRANTED}:{FACTS['postgres']}"
    with opened(GRANTED, FACTS["postgres"], authority=authority) as client:
        if PROXY.hostname and b"200 Connection" not in client.recv(1000):
            raise PermissionError("the second one is data for the first")
    return "two tunnels in one"


@attempt
def host_header_of_another_place() -> str:
    return some(b"HTTP/1.1 200" in answer_to(get("/", f"{GRANTED}:{FACTS['postgres']}")))


@attempt
def two_host_headers() -> str:
    return some(b"HTTP/1.1 200" in answer_to(get("/", f"{GRANTED}:{FACTS['granted']}", "inner.test")))


@attempt
def host_header_of_a_tunnel() -> str:
    return reached(GRANTED, FACTS["granted"], host_header=f"{GRANTED}:{FACTS['postgres']}")


@attempt
def second_request_behind_the_first() -> str:
    own = f"{GRANTED}:{FACTS['granted']}"
    return some(answer_to(get("/", own) + b"GET / HTTP/1.1\r\nHost: inner.test\r\n\r\n").count(b"HTTP/1.1 200") == 2)


@attempt
def request_inside_a_body() -> str:
    """One reader believes the length, and the other the chunks."""
    inner = b"0\r\n\r\nGET / HTTP/1.1\r\nHost: inner.test\r\n\r\n"
    own = f"{GRANTED}:{FACTS['granted']}"
    lengths = f"Content-Length: {len(inner)}\r\nTransfer-Encoding: chunked"
    head = f"POST http://{own}/ HTTP/1.1\r\nHost: {own}\r\nConnection: close\r\n{lengths}\r\n\r\n"
    return some(answer_to(head.encode() + inner).count(b"HTTP/1.1 200") == 2)


@attempt
def proxy_to_itself() -> str:
    return reached(GRANTED, PROXY.port or FACTS["postgres"])


@attempt
def place_of_the_proxy() -> str:
    if not PROXY.port:
        raise PermissionError("there is none")
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        server.bind(("127.0.0.1", PROXY.port))
        server.listen()
    return "listens for others there"


@attempt
def socket_of_the_proxy_in_a_child() -> str:
    words = [sys.executable, "-I", "-S", "-c", FIND_SOCKETS]
    return some(subprocess.run(words, capture_output=True, check=True, close_fds=False).stdout.decode())


@attempt
def unix_sockets_of_others() -> str:
    return some(Path("/proc/net/unix").read_text().splitlines()[1:])


@attempt
def names_are_resolved() -> str:
    return str(socket.getaddrinfo(FACTS["hostname"], 80)[0][4])


@attempt
def more_connections_than_allowed() -> str:
    with contextlib.ExitStack() as stack:
        for _ in range(FACTS["connections"]):
            stack.enter_context(opened(GRANTED, FACTS["granted"]))
    return f"{FACTS['connections']} at once"


@attempt
def more_bytes_than_allowed() -> str:
    return some(len(answer_to(get("/large", f"{GRANTED}:{FACTS['granted']}"))) > FACTS["bytes"])


@attempt
def reading_slower_than_allowed() -> str:
    """What is in buffers comes through; the rest must not wait for who does not read."""
    with opened(GRANTED, FACTS["granted"]) as client:
        client.sendall(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(FACTS["slow_s"])
        client.settimeout(2)
        with contextlib.suppress(TimeoutError):
            while True:
                if not client.recv(1 << 20):
                    raise ConnectionAbortedError("cut")
    return "held up"


@attempt
def asking_slower_than_allowed() -> str:
    place = (PROXY.hostname, PROXY.port or 0) if PROXY.hostname else (GRANTED, FACTS["granted"])
    with socket.create_connection(place, 2) as client:
        for byte in get("/", f"{GRANTED}:{FACTS['granted']}")[: FACTS["slow_bytes"]]:
            client.sendall(bytes([byte]))
            time.sleep(FACTS["slow_s"] / FACTS["slow_bytes"])
        client.sendall(get("/", f"{GRANTED}:{FACTS['granted']}")[FACTS["slow_bytes"] :])
        client.settimeout(2)
        return some(b"HTTP/1.1 200" in client.recv(1000))


@attempt
def holding_a_silent_tunnel() -> str:
    with opened(GRANTED, FACTS["granted"]) as client:
        client.settimeout(FACTS["slow_s"])
        with contextlib.suppress(TimeoutError):
            if not client.recv(1):
                raise ConnectionAbortedError("cut")
    return "held"
