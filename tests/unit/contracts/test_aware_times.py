"""Times that people give for the audit and the look back need a zone: half a day of it can't be erased by guessing."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from towpath_contracts.gate_notices import ListGateNotices
from towpath_contracts.tools.access import AuditQuery
from towpath_contracts.tools.audit import AuditExportCursor, ExportAudit
from towpath_contracts.tools.erasures import RequestErasure
from towpath_contracts.tools.policy import DiffPolicy, GetToolCallStatistics
from towpath_gateway.app.routes.access import search_audit
from towpath_gateway.app.routes.audit_log import ExportAuditBody
from towpath_gateway.app.routes.erasures import RequestErasureBody
from towpath_gateway.app.routes.notices import list_notices
from towpath_gateway.app.routes.policies import PolicyImpactBody, get_statistics

NAIVE = "2026-11-22T09:00:00"
CURSOR = {"page": 1, "end_seal": 1, "size": 1, "seal_id": 1, "leaf": 1}


@pytest.mark.parametrize(
    ("kind", "expected", "names"),
    [
        (ExportAudit, {"project": "p", "actor": "a"}, ("since", "until")),
        (AuditExportCursor, CURSOR, ("effects_since",)),
        (RequestErasure, {"project": "p", "actor": "a", "reason": "r"}, ("before",)),
        (DiffPolicy, {"project": "p", "text": ""}, ("since", "until")),
        (GetToolCallStatistics, {"project": "p"}, ("since", "until")),
        (AuditQuery, {"project": "p"}, ("since", "until")),
        (ListGateNotices, {"project": "p"}, ("before",)),
        (ExportAuditBody, {}, ("since", "until")),
        (RequestErasureBody, {"reason": "r"}, ("before",)),
        (PolicyImpactBody, {"text": ""}, ("since", "until")),
    ],
)
def test_a_time_without_a_zone_is_refused(
    kind: type[BaseModel], expected: dict[str, Any], names: tuple[str, ...]
) -> None:
    for name in names:
        with pytest.raises(ValidationError, match="timezone"):
            kind.model_validate({**expected, name: NAIVE})
        found = getattr(kind.model_validate({**expected, name: f"{NAIVE}+02:00"}), name)
        assert found == datetime(2026, 11, 22, 7, tzinfo=UTC)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        *((get_statistics, name) for name in ("since", "until")),
        *((search_audit, name) for name in ("since", "until")),
        (list_notices, "before"),
    ],
)
def test_and_so_in_the_addresses_of_what_is_looked_up(asked: Callable[..., Any], name: str) -> None:
    with pytest.raises(ValidationError, match="timezone"):
        TypeAdapter(asked.__annotations__[name]).validate_python(NAIVE)
