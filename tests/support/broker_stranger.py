"""Waits for the loopback port argv[1] to be free, takes it and answers there as a NATS server that asks for a login.

It prints `listens`, then a line for each connection (`connected`) and for each line that it is sent, and believes
everything. It is read by a Python that has nothing but the standard library, in the name of another OS user.
"""

import json
import socket
import sys
import threading
import time

HELLO = {"server_id": "N", "version": "2.15.1", "headers": True, "max_payload": 1_048_576, "auth_required": True}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def serve(connection: socket.socket) -> None:
    """Say hello, and print what comes."""
    with connection:
        connection.sendall(b"INFO %s\r\n" % json.dumps({**HELLO, "nonce": "abcdefghijklmno"}).encode())
        say("connected")
        try:
            for line in connection.makefile("rb"):
                say(repr(line))
                if line.startswith(b"PING"):
                    connection.sendall(b"PONG\r\n")
        except OSError:
            return


def taken(port: int) -> socket.socket:
    """Listen at *port* in the moment in which it is free."""
    while True:
        try:
            return socket.create_server(("127.0.0.1", port), backlog=256)
        except OSError:
            time.sleep(0.001)


with taken(int(sys.argv[1])) as listener:
    say("listens")
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
