"""Whose sockets they are, by tables as Linux writes them."""

import os
import socket
import struct

import pytest

from towpath_fabric.socket_owners import answered_user, connection_owner, connection_user, listener_users, socket_tables

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
ROW = "0: {here} {there} {state} 00000000:00000000 00:00000000 00000000 {user:5} 0 {inode} 1 0000 20 4 30 10 -1"
LISTENS = "0: 0100007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user} 0 575 1"
EVERYWHERE = "0: 00000000000000000000000000000000:2253 " + "0" * 32 + ":0000 0A 0:0 00:0 0 {user} 0 575 1"
ELSEWHERE = "0: 0200007F:2253 00000000:0000 0A 00000000:00000000 00:00000000 00000000 {user} 0 575 1"
CONNECTED = "0: 0100007F:2253 0100007F:E95E 01 00000000:00000000 03:00000610 00000000 {user} 0 0 3"
PORT = 0x2253
SERVER, CLIENT = ("127.0.0.1", 0x2253), ("127.0.0.1", 0xE95E)
MAPPED = "0000000000000000FFFF0000"


def table(*rows: str) -> str:
    return "\n".join([HEAD, *rows])


def row(
    here: str = "0100007F:2253", there: str = "0100007F:E95E", state: str = "01", user: int = 1000, inode: int = 77
) -> str:
    return ROW.format(here=here, there=there, state=state, user=user, inode=inode)


@pytest.mark.parametrize(
    ("rows", "users"),
    [
        ([LISTENS.format(user=1000)], {1000}),
        ([LISTENS.format(user=65534), EVERYWHERE.format(user=1000)], {65534, 1000}),
        ([CONNECTED.format(user=1000), ELSEWHERE.format(user=1000)], set()),
    ],
)
def test_whoever_may_answer_at_a_port_is_found_in_the_tables_of_the_kernel(rows: list[str], users: set[int]) -> None:
    assert listener_users(table(*rows), PORT) == users
    assert listener_users(table(*rows), PORT + 1) == set()


def test_the_owner_is_that_of_the_other_end_of_exactly_this_connection() -> None:
    others = [
        row("0100007F:E95E", "0100007F:2253", user=1),  # our own end
        row(there="0100007F:E95F", user=2),  # another client's connection
        row("0200007F:2253", user=3),
        row("00000000:2253", "00000000:0000", state="0A", user=4),
    ]
    assert connection_owner(table(*others), SERVER, CLIENT) is None
    assert connection_owner(table(*others, row(user=1001)), SERVER, CLIENT) == 1001


@pytest.mark.parametrize("changed", [{"inode": 0}, {"state": "06"}, {"state": "03"}, {"state": "04"}], ids=str)
def test_a_socket_that_no_process_holds_is_not_taken_for_roots(changed: dict[str, int]) -> None:
    assert connection_owner(table(row(user=0, **changed)), SERVER, CLIENT) is None  # type: ignore[arg-type]


def test_a_stranger_that_listens_for_ipv6_too_is_found_there() -> None:
    mapped = row(f"{MAPPED}0100007F:2253", f"{MAPPED}0100007F:E95E", user=1001)
    assert connection_owner(table(mapped), SERVER, CLIENT) == 1001
    loopback = row("00000000000000000000000001000000:2253", "00000000000000000000000001000000:E95E", user=1002)
    assert connection_owner(table(loopback), ("::1", 0x2253), ("::1", 0xE95E)) == 1002


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")], ids=str)
def test_the_kernel_writes_a_connection_as_it_is_read(family: socket.AddressFamily, address: str) -> None:
    if not socket_tables():  # a system without them: there is nothing to be read as it was written
        assert socket_tables() == []
        return
    try:
        listener = socket.create_server((address, 0), family=family)
    except OSError:  # a machine without IPv6
        assert family == socket.AF_INET6
        return
    with listener, socket.create_connection(listener.getsockname()[:2]) as client:
        here, there = client.getsockname()[:2], client.getpeername()[:2]

        def owners() -> set[int | None]:
            return {connection_owner(text, there, here) for text in socket_tables()}

        assert owners() == {None} == {connection_user(there, here)}  # nobody has accepted it
        accepted, _ = listener.accept()
        assert owners() == {None, os.geteuid()}
        assert connection_user(there, here) == os.geteuid()
        accepted.close()
        assert owners() == {None} == {connection_user(there, here)}


def answer(kind: int = 20, state: int = 1, user: int = 1001, inode: int = 77) -> bytes:
    body = struct.pack("=BBBB48x3I", socket.AF_INET, state, 0, 0, 0, 0, 0) + struct.pack("=II", user, inode)
    return struct.pack("=IHHII", 16 + len(body), kind, 0, 1, 0) + body


def test_the_kernels_answer_names_the_user_of_a_connection_that_a_process_holds() -> None:
    assert answered_user(answer()) == 1001
    assert answered_user(answer(user=0)) == 0
    for refusal in (answer(kind=2), answer(state=10), answer(state=6), answer(inode=0), answer()[:40], b""):
        assert answered_user(refusal) is None


def test_where_the_kernel_can_not_be_asked_its_table_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> bytes:
        raise OSError("Protocol not supported")

    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as client:
        accepted, _ = listener.accept()
        with accepted:
            here, there = client.getsockname(), client.getpeername()
            read = {connection_user(there, here)}
            monkeypatch.setattr("towpath_fabric.socket_owners._ask", refused)
            read |= {connection_user(there, here)}
            monkeypatch.setattr("towpath_fabric.socket_owners.socket_tables", list)
            assert connection_user(there, here) is None
    assert read == {os.geteuid()} or not socket_tables()


def test_a_stranger_that_listens_for_both_families_is_named_over_netlink_too() -> None:
    if not socket.has_dualstack_ipv6():
        return
    listener = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    with listener, socket.create_connection(("127.0.0.1", listener.getsockname()[1])) as client:
        accepted, _ = listener.accept()
        with accepted:
            assert connection_user(client.getpeername(), client.getsockname()) == os.geteuid()
