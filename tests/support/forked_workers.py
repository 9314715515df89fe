"""Forks the processes of tests from one that has imported and collected the tests, instead of collecting in each.

`offer` starts the collecting process and has xdist start this file in place of a worker. This file as a program hands
the pipes that xdist made for it to the collecting process; that one forks, and the fork speaks to xdist as a worker
does. Where the collecting process ends without a fork, as it does when a module can't be collected, the program becomes
xdist's own worker, which tells why. Collecting takes some ten seconds, and six processes would each do it.
"""

import contextlib
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the program that hands the pipes over starts in hundredths of a second
    from collections.abc import Generator

    import pytest

MOST_WAITING = 64
FORKED = b"f"


def offer(config: "pytest.Config", root: str) -> None:
    """Start collecting what *config* asks for, and have xdist take its workers from there."""
    import json
    import shlex
    import subprocess
    import tempfile

    from xdist.plugin import _sys_path

    count = config.option.numprocesses
    if sys.platform != "linux" or not count or count < 2 or config.option.tx != ["popen"] * count:
        return
    folder = tempfile.TemporaryDirectory(prefix="towpath-tests-")
    config.add_cleanup(folder.cleanup)
    place = f"{folder.name}/workers"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(place)
    listener.listen(MOST_WAITING)
    with listener:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", f"from {__name__} import main; main({listener.fileno()})"],
            cwd=root,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
        )
    assert process.stdin is not None
    order = {
        "args": [str(word) for word in config.invocation_params.args],
        "path": _sys_path,
        "count": count,
        "folder": str(config.invocation_params.dir),
    }
    process.stdin.write(json.dumps(order).encode() + b"\n")
    process.stdin.flush()  # it ends when this side is closed, by whatever end of this process

    def end() -> None:
        with contextlib.suppress(OSError):
            process.stdin.close()
        process.wait()

    config.add_cleanup(end)
    words = [sys.executable, "-I", "-S", __file__, place]
    config.option.tx = [f"popen//python={shlex.join(words)}"] * count


def hand_over(place: str, words: list[str]) -> None:
    """Give standard input and output to a fork and stay until it has ended; without one, become what *words* say."""
    with socket.socket(socket.AF_UNIX) as connection, contextlib.suppress(OSError):
        connection.connect(place)
        socket.send_fds(connection, [FORKED], [0, 1])
        if connection.recv(len(FORKED)) == FORKED:
            for descriptor in (0, 1):
                os.close(descriptor)  # whoever reads from the fork must see its end
            connection.recv(1)
            return
    os.execv(sys.executable, [sys.executable, *words])


class _Records:
    """Stands for the channel to xdist until there is one, and keeps what is to be told."""

    def __init__(self) -> None:
        from execnet.gateway_base import get_execmodel

        self.gateway = self
        self.execmodel = get_execmodel("main_thread_only")
        self.told: list[object] = []

    def send(self, event: object) -> None:
        self.told.append(event)


class _Tasks:
    """Hands what xdist sends for execution to the main thread, which is deep in pytest already."""

    def __init__(self, execmodel: Any) -> None:
        import queue
        import threading

        self.execmodel = execmodel
        self.queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.ended = threading.Event()

    def spawn(self, function: Any, item: Any) -> None:
        self.queue.put((function, item))

    def trigger_shutdown(self) -> None:
        self.queue.put(None)

    def waitall(self, timeout: float | None = None) -> bool:
        return self.ended.wait(timeout)


class _Forks:
    """What the collecting process does when all is collected: fork, until the process that shows the results ends."""

    def __init__(self, listener: socket.socket, config: "pytest.Config", interactor: Any, records: _Records) -> None:
        self.listener, self.config, self.interactor, self.records = listener, config, interactor, records
        self.gateway: Any = None
        self.tasks: Any = None
        self.connection: socket.socket | None = None

    def fork(self, session: "pytest.Session") -> None:
        """Return in each fork, as a worker that xdist has begun to speak to."""
        import gc
        import threading

        if session.testsfailed or threading.active_count() > 1:
            os._exit(1)  # the workers of xdist collect themselves and say what is wrong
        capture = self.config.pluginmanager.getplugin("capturemanager")
        capture.stop_global_capturing()  # its file would be shared by all forks
        gc.collect()
        gc.freeze()
        self._speak(*self._forked())
        capture.start_global_capturing()
        capture.suspend_global_capture()

    def _forked(self) -> tuple[int, int]:
        """Return the descriptors of a worker's pipes, in its fork; never in the collecting process."""
        import select

        while True:
            readable, _, _ = select.select([self.listener, 0], [], [])
            if self.listener not in readable:
                os._exit(0)
            connection, _ = self.listener.accept()
            _, passed, _, _ = socket.recv_fds(connection, len(FORKED), 2)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)  # one that crashed, and is replaced
            if len(passed) == 2 and os.fork() == 0:
                self.listener.close()
                self.connection = connection
                connection.sendall(FORKED)
                return passed[0], passed[1]
            for descriptor in passed:
                os.close(descriptor)
            connection.close()

    def _speak(self, read: int, write: int) -> None:
        """Answer xdist at these pipes up to the point at which a worker has collected."""
        import itertools

        import xdist.remote
        from execnet.gateway_base import Popen2IO, WorkerGateway

        from towpath_embedded.processes import ports

        ports._choices = itertools.count(ports.first_choice(os.getpid()))
        for descriptor, how in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
            null = os.open(os.devnull, how)
            os.dup2(null, descriptor)
            os.close(null)
        pipes = Popen2IO(os.fdopen(write, "w"), os.fdopen(read, "r"), self.records.execmodel)
        while pipes.read(1) != b"\n":  # the program of a worker, which this process has
            pass
        pipes.write(b"1")
        self.gateway = WorkerGateway(pipes, id="worker")
        self.tasks = self.gateway._execpool = _Tasks(pipes.execmodel)
        self.gateway._executetask_complete = pipes.execmodel.Event()
        self.gateway._executetask_complete.set()
        self.gateway._initreceive()
        while (task := self.tasks.queue.get()) is not None:
            execute, item = task
            channel, (_, name, *_) = item
            if name == xdist.remote.__file__:
                self._become(channel)
                return
            execute(item)
        os._exit(0)

    def _become(self, channel: Any) -> None:
        """Take over the number, the folders and the channel of a worker."""
        from _pytest.tmpdir import TempPathFactory

        chosen, _, options, _ = channel.receive()
        self.config.workerinput.update(chosen)  # type: ignore[attr-defined]
        os.environ["PYTEST_XDIST_TESTRUNUID"] = chosen["testrunuid"]
        os.environ["PYTEST_XDIST_WORKER"] = chosen["workerid"]
        self.config.option.basetemp = options.get("basetemp")
        self.config._tmp_path_factory = TempPathFactory.from_config(self.config, _ispytest=True)  # type: ignore[attr-defined]
        self.interactor.workerid = chosen["workerid"]
        self.interactor.testrunuid = chosen["testrunuid"]
        self.interactor.channel = channel
        for event in self.records.told:
            channel.send(event)

    def end(self) -> None:
        """Close the channel of this fork, and wait until xdist has taken leave of it."""
        self.interactor.channel.close()
        self.tasks.ended.set()
        self.gateway.join()


def main(descriptor: int) -> None:
    """Collect the tests; a fork runs those that it is given."""
    import json

    from _pytest.config import _prepareconfig

    order = json.loads(_first_line())
    os.chdir(order["folder"])
    sys.path = order["path"]
    sys.argv = ["-c"]
    os.environ["PYTEST_XDIST_WORKER"] = "collecting"
    os.environ["PYTEST_XDIST_TESTRUNUID"] = ""
    os.environ["PYTEST_XDIST_WORKER_COUNT"] = str(order["count"])
    config = _prepareconfig(order["args"], None)
    import xdist.remote  # behind what prepares the modules of plugins

    xdist.remote.setup_config(config, None)
    config.workerinput = {  # type: ignore[attr-defined]
        "workerid": "collecting",
        "workercount": order["count"],
        "testrunuid": "",
        "mainargv": sys.argv,
    }
    config.workeroutput = {}  # type: ignore[attr-defined]
    records = _Records()
    interactor = xdist.remote.WorkerInteractor(config, records)  # type: ignore[arg-type]
    xdist.remote.interactor = interactor  # type: ignore[attr-defined] # which it takes from its own module
    forks = _Forks(socket.socket(fileno=descriptor), config, interactor, records)
    config.pluginmanager.register(_plugin(forks))
    config.hook.pytest_cmdline_main(config=config)
    if forks.gateway is not None:
        forks.end()


def _plugin(forks: _Forks) -> object:
    """Return the plugin that forks inside of what others do around the tests, so that they do it in each fork."""
    import pytest

    class ForkingPlugin:
        @pytest.hookimpl(wrapper=True, trylast=True)
        def pytest_runtestloop(self, session: pytest.Session) -> "Generator[None, bool, bool]":
            forks.fork(session)
            return (yield)

    return ForkingPlugin()


def _first_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1) or b"\n"
    return line


if __name__ == "__main__":
    hand_over(sys.argv[1], sys.argv[2:])
