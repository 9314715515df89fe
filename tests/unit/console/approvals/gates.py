"""Gates as the API answers them, and an API that answers with them."""

from collections.abc import Mapping
from typing import Any

from towpath_console.api import Api, ApiRefusalError

GATE_ID = "b8176244-5c21-5539-9bae-2275585647f8"
TOOL = {
    "name": "orders.refund",
    "description": "Give money back.",
    "effect_class": "irreversible",
    "hazards": [],
    "system_params": ["tenant"],
    "parameters": {
        "properties": {
            "order_id": {"type": "string", "description": "The order."},
            "amount": {"type": "number"},
            "reason": {"type": "string"},
            "speed": {"enum": ["slow", "fast"]},
            "tenant": {"type": "string"},
        },
        "required": ["order_id", "amount"],
    },
}
RULE = {
    "name": "large",
    "effect": "require_approval",
    "note": "Somebody looks.",
    "when": "args.amount > 100",
    "quorum": 1,
}


def a_gate(*, gate_type: str = "approval", detail: dict[str, Any] | None = None, **told: Any) -> dict[str, Any]:
    usual = {
        "tool": "orders.refund", "args": {"order_id": "8812", "amount": 129.0}, "rule": "large", "agent": "billing",
        "digest": "sha256:aa", "origins": [], "changes": [],
    }  # fmt: skip
    return {
        "gate_id": GATE_ID, "run_id": "01a21826-750f-7b51-adac-0b09758c40f8", "gate_type": gate_type,
        "network": "support",
        "status": "pending", "reason": "somebody looks", "detail": usual | told if detail is None else detail,
        "execution_id": "e", "approval_id": "p", "quorum": 1, "votes": [], "opened_at": "2026-11-26T14:00:00Z",
        "expires_at": "2026-11-27T14:00:00Z", "closed_at": None, "closed_by": "", "closed_reason": "", "verdict": "",
    }  # fmt: skip


class RecordedApi(Api):
    """Answers what was recorded, by path, and keeps what it was sent."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.sent: list[tuple[str, Any]] = []

    @property
    def identity(self) -> tuple[tuple[str, str], ...]:
        return ()

    async def get(self, path: str, **params: str | int | None) -> dict[str, Any]:
        self.asked.append((path, {name: value for name, value in params.items() if value is not None}))
        return self._answer(path)

    async def post(self, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.sent.append((path, body))
        return self._answer(path)

    def _answer(self, path: str) -> dict[str, Any]:
        found = self.answers.get(path, ApiRefusalError(404, {"code": "not_found", "title": path}))
        if isinstance(found, list):
            found = found.pop(0) if len(found) > 1 else found[0]
        if isinstance(found, Exception):
            raise found
        answer: dict[str, Any] = found
        return answer
