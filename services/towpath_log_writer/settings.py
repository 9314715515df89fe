"""Settings of the log-writer, from its environment."""

from pydantic import Field

from towpath_fabric.settings import Settings


class LogWriterSettings(Settings):
    """`TOWPATH_HISTORY_*`. A longer linger makes larger batches: less work for the machine, later history."""

    history_linger_ms: int = Field(default=100, ge=0, le=5_000)
    history_batch: int = Field(default=500, ge=1, le=5_000)
    history_sweep_s: float = Field(default=2.0, gt=0, le=3_600)
