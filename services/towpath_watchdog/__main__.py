"""Reads the settings and runs one watchdog: `python -m towpath_watchdog`."""

import sys

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()

with paused():
    from towpath_fabric.startup.process_end import run_process
    from towpath_watchdog.settings import WatchdogSettings
    from towpath_watchdog.wiring import build_service


if __name__ == "__main__":
    sys.exit(run_process("watchdog", WatchdogSettings.load, lambda settings: build_service(settings).run()))
