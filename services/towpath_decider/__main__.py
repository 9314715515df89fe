"""Reads the settings and runs one decider: `python -m towpath_decider`."""

import sys

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()

with paused():
    from towpath_decider.settings import DeciderSettings
    from towpath_decider.wiring import build_service
    from towpath_fabric.startup.process_end import run_process


if __name__ == "__main__":
    sys.exit(run_process("decider", DeciderSettings.load, lambda settings: build_service(settings).run()))
