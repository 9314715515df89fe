"""Connects to the Postgres at the socket argv[1] as its owner, without a password, and prints whether it was let in.

It is read by a Python that has nothing but the standard library, in the name of another OS user.
"""

import socket
import struct
import sys

with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    wanted = struct.pack("!i", 196_608) + b"user\0postgres\0database\0postgres\0\0"
    connection.sendall(struct.pack("!i", len(wanted) + 4) + wanted)
    kind = connection.recv(1)
    method = struct.unpack("!ii", connection.recv(8))[1] if kind == b"R" else None
sys.stdout.write("let in" if method == 0 else "refused")
