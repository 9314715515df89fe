"""What processes use is read while some of them end."""

import os
import subprocess
import sys
from pathlib import Path

from tests.chaos.soak.samples import process_use


def test_a_process_that_has_ended_and_is_not_waited_for_uses_nothing() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    try:
        while Path(f"/proc/{ended.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            pass
        assert process_use([ended.pid]) == {}
        own = process_use([os.getpid()])
        assert process_use([os.getpid(), ended.pid]).keys() == own.keys() >= {"rss_mib", "anon_mib", "fds"}
    finally:
        ended.wait()
