"""Small values that the processes of one role share through the broker, written by compare-and-set.

A register is the last message of its subject. Registers are hints: a broker that lost all its data starts with none.
Time is the broker's, read from the timestamps of its messages, so the clocks of two machines are never compared. It is
a lower bound: a process that waits for a point in time never continues too early.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nats import errors as nats_errors

from towpath_contracts.subjects import register
from towpath_fabric.clock import monotonic

if TYPE_CHECKING:
    from towpath_fabric.nats.bus import Bus

STREAM = "REGISTERS"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
REQUEST_TIMEOUT_S = 2.0
SYNC_S = 30.0
"""How often the broker's clock is read: in this time two clocks drift by a few milliseconds."""


class RegistersUnavailableError(Exception):
    """The broker did not answer; what was written may have been stored all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterEntry:
    """The value of a register, None where it is empty; a write has to name its `revision`."""

    body: bytes | None
    revision: int


class SharedRegisters:
    """The registers of one namespace. `now` is usable after the first `sync`."""

    def __init__(self, bus: "Bus", space: str) -> None:
        self._bus = bus
        self._space = space
        self._clock_offset: float | None = None
        self._synced_at = 0.0

    def now(self) -> float:
        """Return a lower bound of the broker's time in seconds since 1970."""
        if self._clock_offset is None:
            msg = "the broker's clock was not read yet"
            raise RegistersUnavailableError(msg)
        return self._clock_offset + monotonic()

    async def time(self) -> tuple[datetime, float]:
        """Return the broker's time and at which `monotonic()` it is that; raises RegistersUnavailableError."""
        await self.sync()
        at = monotonic()
        return datetime.fromtimestamp(self.now(), UTC), at

    async def sync(self) -> None:
        """Read the broker's clock if it was not read for `SYNC_S`; raises RegistersUnavailableError."""
        if self._clock_offset is not None and monotonic() - self._synced_at < SYNC_S:
            return
        await self._request(register(self._space, "clock"), b"{}", {})
        before = self._clock_offset
        self._clock_offset = None
        await self.read("clock")
        if self._clock_offset is None:
            self._clock_offset = before
            msg = "the broker did not return its time"
            raise RegistersUnavailableError(msg)
        self._synced_at = monotonic()

    async def read(self, name: str) -> RegisterEntry:
        """Return the register *name*; raises RegistersUnavailableError."""
        subject = register(self._space, name)
        body, headers = await self._request(f"$JS.API.DIRECT.GET.{STREAM}.{subject}", b"", {})
        stamp, revision = headers.get("Nats-Time-Stamp"), headers.get("Nats-Sequence")
        if stamp is None or revision is None:
            if headers.get("Status") == "404":
                return RegisterEntry(body=None, revision=0)
            msg = f"{subject}: {headers.get('Status')} {headers.get('Description')}"
            raise RegistersUnavailableError(msg)
        offset = datetime.fromisoformat(stamp).timestamp() - monotonic()
        self._clock_offset = offset if self._clock_offset is None else max(self._clock_offset, offset)
        return RegisterEntry(body=body, revision=int(revision))

    async def write(self, name: str, body: bytes, revision: int) -> bool:
        """Write *body* if the register is still at *revision*, else return False; raises RegistersUnavailableError."""
        answer, _ = await self._request(register(self._space, name), body, {EXPECTED: str(revision)})
        return b'"error"' not in answer

    async def _request(self, subject: str, body: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        try:
            reply = await self._bus.nc.request(subject, body, timeout=REQUEST_TIMEOUT_S, headers=headers or None)
        except (TimeoutError, nats_errors.Error) as error:
            msg = f"no answer on {subject}"
            raise RegistersUnavailableError(msg) from error
        return reply.data, dict(reply.headers or {})
