"""Stands for a forked process: hands it the files of this one, passes signals on, and ends as it does.

Run as a file, without any import that takes long.
"""

import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT)


def main(place: str, words: list[str]) -> int:
    """Return how the process ended that was forked for *words*."""
    order = {"words": words, "environment": dict(os.environ), "folder": os.getcwd()}  # noqa: PTH109 - paths take long to import
    server = socket.socket(socket.AF_UNIX)
    server.connect(place)
    socket.send_fds(server, [b"s"], [0, 1, 2])
    server.sendall(json.dumps(order).encode() + b"\n")
    answers = server.makefile("rb")
    process = int(answers.readline())
    for one in PASSED_ON:
        signal.signal(one, lambda number, _: os.kill(process, number))
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)  # who reads what the fork writes has to see its end
    return int(answers.readline())


if __name__ == "__main__":
    status = main(sys.argv[1], sys.argv[2:])
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)
