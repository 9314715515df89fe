"""Reads the settings and runs one decider: `python -m towpath_decider`."""

import sys

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()

with paused():
    from towpath_decider.settings import DeciderSettings
    from towpath_decider.wiring import build_service


if __name__ == "__main__":
    sys.exit(build_service(DeciderSettings.load()).run())
