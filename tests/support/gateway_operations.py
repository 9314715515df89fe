"""Every operation of the gateway with the scope that it needs, and what each role may do. Kept by hand, on purpose."""

import uuid

TASK = {"network": "support", "user_message": "hello"}

OPERATIONS = [
    ("runs:write", "POST", "/v1/runs", TASK),
    ("runs:write", "POST", "/run", TASK),
    ("runs:write", "POST", f"/v1/runs/{uuid.uuid4()}/cancel", None),
    ("runs:write", "POST", "/v1/networks/n/invoke", {"agent_key": "a", "decision": {}}),
    ("runs:read", "GET", "/v1/runs", None),
    ("runs:read", "GET", f"/v1/runs/{uuid.uuid4()}", None),
    ("runs:read", "GET", f"/v1/runs/{uuid.uuid4()}/events", None),
    ("runs:read", "GET", f"/v1/runs/{uuid.uuid4()}/history", None),
    ("runs:read", "GET", f"/v1/runs/{uuid.uuid4()}/tools/{uuid.uuid4()}", None),
    ("networks:write", "POST", "/v1/networks", {"spec": {}}),
    ("networks:read", "POST", "/v1/networks/validate", {"spec": {}}),
    ("networks:read", "POST", "/v1/networks/n/prompt", {}),
    ("networks:read", "GET", "/v1/networks", None),
    ("networks:read", "GET", "/v1/networks/n", None),
    ("gates:read", "GET", "/v1/gates", None),
    ("gates:read", "GET", f"/v1/gates/{uuid.uuid4()}", None),
    ("gates:resolve", "POST", f"/v1/gates/{uuid.uuid4()}/approve", None),
    ("gates:resolve", "POST", f"/v1/gates/{uuid.uuid4()}/deny", {"reason": "no"}),
    ("gates:resolve", "POST", f"/v1/gates/{uuid.uuid4()}/resolve", {"verdict": "retry"}),
    ("audit:read", "GET", "/v1/audit", None),
    ("audit:read", "POST", "/v1/audit/export", {}),
    ("audit:read", "GET", "/v1/audit/checkpoint", None),
    ("policy:write", "POST", "/v1/audit/erase", {"reason": "r", "caller": "c"}),
    ("policy:read", "GET", "/v1/policy", None),
    ("policy:read", "POST", "/v1/policy/check", {"network": "n", "agent_key": "a", "tool": "t"}),
    ("policy:read", "GET", "/v1/permissions/n/a", None),
    ("policy:read", "GET", "/v1/tools", None),
    ("policy:write", "POST", "/v1/policy", {"text": ""}),
    ("policy:write", "POST", "/v1/tools/t/proposal", {"version": 1, "accept": True}),
    ("policy:read", "GET", "/v1/policy/versions", None),
    ("policy:read", "GET", "/v1/policy/changes", None),
    ("policy:write", "POST", "/v1/policy/rollback", {"version": 1}),
    ("policy:read", "GET", "/v1/policy/rules/r", None),
    ("policy:write", "PUT", "/v1/policy/rules/r", {"rule": {}}),
    ("policy:write", "DELETE", "/v1/policy/rules/r", None),
    ("policy:write", "POST", "/v1/policy/diff", {"text": ""}),
    ("policy:read", "GET", "/v1/policy/shadow", None),
    ("policy:write", "PUT", "/v1/policy/shadow", {"text": ""}),
    ("policy:write", "DELETE", "/v1/policy/shadow", None),
    ("audit:read", "GET", "/v1/statistics", None),
    ("runs:read", "GET", "/v1/switches", None),
    ("runs:operate", "POST", "/v1/switches/pause", {"kind": "project", "reason": "r"}),
    ("runs:operate", "POST", "/v1/switches/resume", {"kind": "project", "reason": "r"}),
    ("runs:operate", "GET", "/v1/replays", None),
    ("runs:operate", "GET", "/v1/dead-letters", None),
    ("runs:operate", "GET", "/v1/dead-letters/1", None),
    ("runs:operate", "POST", "/v1/dead-letters/1/requeue", {"reason": "r"}),
    ("runs:operate", "POST", "/v1/dead-letters/1/discard", {"reason": "r"}),
    ("runs:operate", "GET", f"/v1/runs/{uuid.uuid4()}/replay", None),
    ("runs:operate", "GET", f"/v1/runs/{uuid.uuid4()}/record", None),
    ("runs:write", "POST", f"/v1/runs/{uuid.uuid4()}/fork", {"from_step": 1}),
    ("keys:admin", "GET", "/v1/keys", None),
    ("keys:admin", "POST", "/v1/keys", {"caller": "c", "scopes": ["runs:read"]}),
    ("keys:admin", "DELETE", "/v1/keys/aaaaaaaaaaaa", None),
]
"""Scope, method, path and a body that is good enough to be refused for its sender alone."""

LOOKS = {"runs:read", "networks:read", "gates:read", "policy:read"}
MAY: dict[str, set[str]] = {
    "viewer": LOOKS,
    "operator": LOOKS | {"runs:write", "runs:operate", "gates:resolve"},
    "approver": LOOKS | {"gates:resolve"},
    "policy_admin": LOOKS | {"policy:write", "gates:resolve"},
    "auditor": LOOKS | {"audit:read"},
}
"""What a person of each role may do; everything else is refused."""
