"""Reads the settings and runs one log-writer: `python -m towpath_log_writer`."""

import sys

from towpath_fabric.garbage_collector import paused
from towpath_fabric.process_protection import protect_process

if __name__ == "__main__":
    protect_process()

with paused():
    from towpath_fabric.startup.process_end import run_process
    from towpath_log_writer.settings import LogWriterSettings
    from towpath_log_writer.wiring import build_service


if __name__ == "__main__":
    sys.exit(
        run_process(
            "log_writer", LogWriterSettings.load, lambda settings: build_service(settings).run(), needs_database=True
        )
    )
