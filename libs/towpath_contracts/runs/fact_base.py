"""What every fact carries."""

from uuid import UUID

from towpath_contracts.base import Message


class FactBase(Message):
    """What every fact carries. `fact_id` makes log lines joinable; it decides nothing."""

    run_id: UUID
    fact_id: str = ""
