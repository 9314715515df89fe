"""Calls that rules with limits let through or deny: what they use, and what the others of their batch have used."""

from collections.abc import Callable, Iterable
from datetime import datetime
from uuid import UUID

from towpath_contracts.tools.calls import CallStatus
from towpath_tas.adapters.ledger_tables import LimitUse
from towpath_tas.app.calls.call_update import CallUpdate
from towpath_tas.core.call import LedgerCall


class BatchUse:
    """What limited rules have let through, of runs and of projects: as it was stored, and with the calls of a batch."""

    def __init__(self, counts: dict[tuple[UUID, str], int], rates: dict[tuple[str, str], int]) -> None:
        self._counts, self._rates = counts, rates
        self._counts_on_top, self._rates_on_top = dict(counts), dict(rates)

    def show(self, update: CallUpdate) -> None:
        """Give the decision about *update* what was used when it is made, and keep what was stored."""
        rules, rates = update.change.counted, update.change.rated
        update.base = {rule: self._counts[update.usage_key, rule] for rule in rules}
        update.stored_use = update.base, {rate.rule: self._rates[update.owner, rate.rule] for rate in rates}
        if update.context is not None:
            update.context.used = {rule: self._counts_on_top[update.usage_key, rule] for rule in rules}
            update.context.rates = {rate.rule: self._rates_on_top[update.owner, rate.rule] for rate in rates}

    def count(self, update: CallUpdate) -> None:
        """Count what was decided: later calls of this batch are counted on top."""
        for rule in update.change.counted:
            self._counts_on_top[update.usage_key, rule] += 1
        for rate in update.change.rated:
            self._rates_on_top[update.owner, rate.rule] += 1
        context = update.context
        alone = context is None or (context.used, context.rates) == update.stored_use
        if alone or denied_call(update) is None:
            update.stored_use = None


def limit_uses(group: Iterable[CallUpdate]) -> list[LimitUse]:
    """Return every use of a limited rule. All calls of a batch share the base that was read: Postgres adds them up."""
    counts = []
    for update in group:
        run_id, execution_id = update.usage_key, update.execution_id
        counts += [LimitUse(run_id, rule, execution_id, update.base.get(rule, 0)) for rule in update.change.counted]
        counts += [
            LimitUse(run_id, rate.rule, execution_id, 0, update.owner, rate.per_s, rate.calls)
            for rate in update.change.rated
        ]
    return counts


def denied_call(update: CallUpdate) -> LedgerCall | None:
    """Return the call of *update* if the policy denies it."""
    call = update.change.call
    return call if call is not None and call.status is CallStatus.DENIED and update.change.policy_bound else None


def postpone_on_top(
    on_top: Iterable[CallUpdate], opens: Iterable[CallUpdate], decide: Callable[[CallUpdate], bool]
) -> set[CallUpdate]:
    """Postpone what a limit denies only for other calls of its batch that were postponed; returns these.

    What is postponed has used nothing of the limit, and the quota has no room for the denied ones either.
    """
    until: dict[str, datetime] = {}
    for update in opens:
        if update.postponed_until is not None:
            until[update.owner] = max(update.postponed_until, until.get(update.owner, update.postponed_until))
    postponed = set()
    for update in on_top:
        if update.owner not in until or update.context is None or update.stored_use is None:
            continue
        denied = update.change
        update.context.used, update.context.rates = update.stored_use
        if decide(update) and denied_call(update) is None:
            update.postpone(until[update.owner])
            postponed.add(update)
        else:
            update.change = denied
    return postponed
