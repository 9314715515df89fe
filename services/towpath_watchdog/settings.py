"""Settings of the watchdog, from its environment. Times are seconds."""

from pydantic import Field

from towpath_fabric.settings import Settings


class WatchdogSettings(Settings):
    """`TOWPATH_WATCHDOG_*`. What is longer than a limit is reported; a longer linger costs the machine less."""

    watchdog_linger_ms: int = Field(default=500, ge=0, le=10_000)
    watchdog_batch: int = Field(default=1_000, ge=1, le=5_000)
    watchdog_sweep_s: float = Field(default=2.0, gt=0, le=3_600)
    watchdog_look_s: float = Field(default=10.0, gt=0, le=3_600)
    watchdog_overdue_s: float = Field(default=30.0, gt=0, le=86_400)
    watchdog_quiet_s: float = Field(default=60.0, gt=0, le=86_400)
    watchdog_queued_s: float = Field(default=3_600.0, gt=0, le=30 * 86_400)
