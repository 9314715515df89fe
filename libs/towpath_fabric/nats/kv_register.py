"""Small values that processes of one role share over the broker: read, and written where nobody wrote meanwhile.

A register is the last message of its subject, written by compare-and-set; nothing is true because of it, and a
broker that lost them all begins with none. Time is the broker's, read from its stamps: a lower bound, so that whoever
waits for a moment never thinks it has come too early, and no two machines' clocks are compared.
"""

from dataclasses import dataclass
from datetime import datetime

from nats import errors as nats_errors

from towpath_contracts.subjects import register
from towpath_fabric.clock import monotonic
from towpath_fabric.nats.bus import Bus

STREAM = "REGISTERS"
EXPECTED = "Nats-Expected-Last-Subject-Sequence"
ASK_S = 2.0
SYNC_S = 30.0
"""How often the broker's clock is read anew: two clocks drift a few milliseconds in it."""


class RegistersAwayError(Exception):
    """The broker did not answer; what was written may have been stored all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a register holds, None where nothing; `revision` is what a write must expect."""

    body: bytes | None
    revision: int


class Registers:
    """Registers below one name. `now` is usable after the first `sync`."""

    def __init__(self, bus: Bus, space: str) -> None:
        self._bus = bus
        self._space = space
        self._base: float | None = None
        self._synced = 0.0

    def now(self) -> float:
        """Return the broker's time in seconds since 1970, as far as it is known: never later than it is."""
        if self._base is None:
            msg = "the broker's clock was not read yet"
            raise RegistersAwayError(msg)
        return self._base + monotonic()

    async def sync(self) -> None:
        """Read the broker's clock, where that was long ago; raises RegistersAwayError."""
        if self._base is not None and monotonic() - self._synced < SYNC_S:
            return
        await self._ask(register(self._space, "clock"), b"{}", {})
        before = self._base
        self._base = None
        await self.read("clock")
        if self._base is None:
            self._base = before
            msg = "the broker did not tell its time"
            raise RegistersAwayError(msg)
        self._synced = monotonic()

    async def read(self, name: str) -> Reading:
        """Return what the register *name* holds; raises RegistersAwayError."""
        subject = register(self._space, name)
        body, headers = await self._ask(f"$JS.API.DIRECT.GET.{STREAM}.{subject}", b"", {})
        stamp, revision = headers.get("Nats-Time-Stamp"), headers.get("Nats-Sequence")
        if stamp is None or revision is None:
            if headers.get("Status") == "404":
                return Reading(body=None, revision=0)
            msg = f"{subject}: {headers.get('Status')} {headers.get('Description')}"
            raise RegistersAwayError(msg)
        told = datetime.fromisoformat(stamp).timestamp() - monotonic()
        self._base = told if self._base is None else max(self._base, told)
        return Reading(body=body, revision=int(revision))

    async def write(self, name: str, body: bytes, revision: int) -> bool:
        """Write *body* where the register is still at *revision*; raises RegistersAwayError."""
        answer, _ = await self._ask(register(self._space, name), body, {EXPECTED: str(revision)})
        return b'"error"' not in answer

    async def _ask(self, subject: str, body: bytes, headers: dict[str, str]) -> tuple[bytes, dict[str, str]]:
        try:
            reply = await self._bus.nc.request(subject, body, timeout=ASK_S, headers=headers or None)
        except (TimeoutError, nats_errors.Error) as error:
            msg = f"no answer on {subject}"
            raise RegistersAwayError(msg) from error
        return reply.data, dict(reply.headers or {})
