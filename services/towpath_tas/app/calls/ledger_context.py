"""What a decision about a call is made from, with the origin of its values where that is known."""

from dataclasses import dataclass, field, replace
from datetime import datetime

from towpath_contracts.switches import ActiveSwitch
from towpath_tas.core.authorization import AuthorizationDecision, ProjectAuthorizer
from towpath_tas.core.authorization_query import AuthorizationQuery
from towpath_tas.core.call import Approval, LedgerCall
from towpath_tas.core.calls.switch_holds import principal_of
from towpath_tas.core.policy.conditions import ConditionBudget
from towpath_tas.core.policy.matrix import CallPrincipal
from towpath_tas.core.provenance.provenance import RunProvenance


@dataclass(slots=True)
class LedgerContext:
    """What TAS decides about a call from: its row, approval, fence and counters, the time and the policy in force."""

    call: LedgerCall | None
    approval: Approval | None
    fence: int
    now: datetime
    bundle: ProjectAuthorizer
    used: dict[str, int] | None = None
    rates: dict[str, int] | None = None
    lost_since: datetime | None = None
    """Since when it is not known what the call's run did; None where it is, or a person was asked about the call."""
    known: RunProvenance | None = None
    needs_origin: AuthorizationQuery | None = None
    traced: AuthorizationQuery | None = None
    budget: ConditionBudget = field(default_factory=ConditionBudget)
    """One for all decisions from this context: with and without origin, limits and directories."""

    @property
    def asks_readers(self) -> bool:
        """Whether the origin is needed with who may know what the call carries."""
        return self.needs_origin is not None and self.bundle.asks_readers(self.needs_origin)

    def with_origin(self, query: AuthorizationQuery) -> AuthorizationQuery:
        """Return *query* with the origin of its values, if that was loaded; looked up once per call."""
        if self.known is None:
            return query
        if self.traced is None or (self.traced.tool, self.traced.args_text) != (query.tool, query.args_text):
            self.traced = self.bundle.with_origin(query, self.known)
        return replace(query, origin=self.traced.origin, call_origin=self.traced.call_origin)

    def authorize(self, query: AuthorizationQuery) -> AuthorizationDecision:
        decision = self.bundle.authorize(self.with_origin(query), self.used, self.rates, self.budget)
        if decision.needs_origin:
            self.needs_origin = query
        return decision

    def active_switch(self, principal: CallPrincipal | None = None, tool: str = "") -> ActiveSwitch | None:
        """Return the switch that holds this call; without a call yet, the one that holds *tool* for *principal*."""
        if not self.bundle.switches.open:
            return None
        if self.call is not None:
            return self.bundle.switches.find(principal_of(self.call), self.call.tool)
        return None if principal is None else self.bundle.switches.find(principal, tool)
