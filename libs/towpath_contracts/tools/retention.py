"""For how long the tool-access service keeps the audit: the one period of the platform that a setting decides."""

from typing import Literal

from towpath_contracts.base import Message


class GetRetention(Message):
    """Gateway to TAS: for how long do you keep the audit?"""


class TasRetention(Message):
    """What the replica that answered was started with; days of 0 or less: for ever."""

    instance: str
    audit_keep_days: int
    origin: Literal["set", "default"]
