"""Attachments of tasks: blobs of the orchestrator, fetched when a model is to be shown them.

A blob is what its digest says or it is refused. The last ones are kept, since a run shows them in every step.
"""

import base64
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from uuid import UUID

from towpath_contracts.canonical import digest_text
from towpath_contracts.decisions.attachments import StoredAttachment
from towpath_contracts.problems.registry import ProblemError
from towpath_decider.adapters.script_source import fetch_blob
from towpath_fabric.ports import MessageBus
from towpath_fabric.request_loop import PlatformUnavailableError

KEPT_BYTES = 32 * 1024 * 1024

LoadAttachments = Callable[[UUID, Sequence[StoredAttachment]], Awaitable[Mapping[str, str]]]
"""Returns the contents of attachments of a run by digest, in base64; raises LookupError where one is gone."""


class AttachmentSource:
    """The bytes of attachments by digest, in base64 as all providers want them."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self._kept: OrderedDict[str, str] = OrderedDict()
        self._size = 0

    async def get(self, run_id: UUID, attachments: Sequence[StoredAttachment]) -> dict[str, str]:
        """Return their data by digest. Raises PlatformUnavailableError, and LookupError where one is gone."""
        return {one.digest: await self._one(run_id, one) for one in attachments}

    async def _one(self, run_id: UUID, wanted: StoredAttachment) -> str:
        known = self._kept.get(wanted.digest)
        if known is not None:
            self._kept.move_to_end(wanted.digest)
            return known
        try:
            data = await fetch_blob(self._bus, wanted.digest, run_id)
        except ProblemError as error:
            message = f"the attachment {wanted.name} could not be fetched: {error}"
            if error.problem.retryable:
                raise PlatformUnavailableError(message) from error
            raise LookupError(message) from error
        if digest_text(data) != wanted.digest:
            msg = f"the attachment {wanted.name} does not match its digest"
            raise LookupError(msg)
        text = base64.b64encode(data).decode()
        if wanted.digest not in self._kept:
            self._kept[wanted.digest] = text
            self._size += len(text)
        while self._size > KEPT_BYTES:
            self._size -= len(self._kept.popitem(last=False)[1])
        return text
