"""The policy: who may do what, the rules behind it, its versions, and what a change would do."""

from towpath_console.page import ActionRoute, PageRoute
from towpath_console.pages.policy import (
    policy_decision,
    policy_edit,
    policy_impact,
    policy_matrix,
    policy_question,
    policy_rules,
    policy_versions,
)

SECTION = "/policy"

PAGES = (
    PageRoute("/policy", policy_matrix.matrix, SECTION),
    PageRoute("/policy/rules", policy_rules.rules, SECTION),
    PageRoute("/policy/simulate", policy_question.simulate, SECTION),
    PageRoute("/policy/versions", policy_versions.versions, SECTION),
    PageRoute("/policy/versions/{version}", policy_versions.version, SECTION),
    PageRoute("/policy/decision", policy_decision.decision, SECTION),
    PageRoute("/policy/edit", policy_edit.editor, SECTION),
    PageRoute("/policy/compare", policy_impact.editor, SECTION),
    PageRoute("/policy/shadow", policy_impact.shadow, SECTION),
)
ACTIONS = (
    ActionRoute("/policy/edit", policy_edit.apply, "policy:write", SECTION),
    ActionRoute("/policy/edit/check", policy_edit.check, "", SECTION),
    ActionRoute("/policy/compare", policy_impact.compare, "", SECTION),
    ActionRoute("/policy/shadow/set", policy_impact.set_shadow, "policy:write", SECTION),
    ActionRoute("/policy/shadow/end", policy_impact.end_shadow, "policy:write", SECTION),
    ActionRoute("/policy/versions/{version}/roll-back", policy_versions.roll_back, "policy:write", SECTION),
)
