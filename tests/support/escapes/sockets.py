"""Attempts to talk to what is outside, and to outlive the sandbox."""

import socket
import subprocess

from tests.support.escapes.attempts import FACTS, attempt, checked, connected, libc, some


@attempt
def abstract_socket() -> str:
    return connected(socket.AF_UNIX, "\0" + FACTS["abstract"])


@attempt
def unix_socket() -> str:
    return connected(socket.AF_UNIX, FACTS["socket"])


@attempt
def broker() -> str:
    return connected(socket.AF_INET, ("127.0.0.1", FACTS["nats"]))


@attempt
def database() -> str:
    return connected(socket.AF_INET, ("127.0.0.1", FACTS["postgres"]))


@attempt
def database_over_ipv6() -> str:
    return connected(socket.AF_INET6, ("::ffff:127.0.0.1", FACTS["postgres"]))


@attempt
def any_address_of_this_machine() -> str:
    return connected(socket.AF_INET, ("0.0.0.0", FACTS["nats"]))


@attempt
def datagrams_to_outside() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(1)
        client.connect(("127.0.0.1", FACTS["datagrams"]))
        client.send(b"x")
        return str(client.recv(1))


@attempt
def metadata_address() -> str:
    """A route is enough: whether somebody answers depends on the machine."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect(("169.254.169.254", 80))
        return f"there is a way from {client.getsockname()[0]}"


@attempt
def name_server() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"\x00\x01\x01\x00" + b"\x00\x01" + bytes(6) + b"\x00\x00\x01\x00\x01", ("192.0.2.53", 53))
    return "a question left this machine"


@attempt
def raw_socket() -> str:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP).close()
    return "made"


@attempt
def packet_socket() -> str:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close()
    return "made"


@attempt
def socket_to_the_hypervisor() -> str:
    socket.socket(40, socket.SOCK_STREAM).close()
    return "no namespace holds it"


@attempt
def sockets_of_the_kernels_cryptography() -> str:
    socket.socket(38, socket.SOCK_SEQPACKET).close()
    return "made"


@attempt
def interfaces() -> str:
    return some([name for _, name in socket.if_nameindex() if name != "lo"])


@attempt
def shared_memory() -> str:
    checked(libc.shmget(FACTS["shm"], 0, 0))
    return "found"


@attempt
def message_queue() -> str:
    checked(libc.msgget(FACTS["shm"], 0))
    return "found"


@attempt
def survive_the_sandbox() -> str:
    """Leave a process behind, in a session of its own; the test looks for it afterwards."""
    words = ["/bin/sh", "-c", "sleep 60; :", FACTS["survivor"]]
    child = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    return f"{child.pid} goes on"
