"""docs/reference/policy-language.md: every key of a rule with its default and bounds, and what conditions know."""

from dataclasses import MISSING, fields

from tests.docs_site.reference.markdown_text import table

from towpath_tas.core.policy import policy_file as limits
from towpath_tas.core.policy.condition_tokens import MACROS
from towpath_tas.core.policy.matrix import Rule

_HEAD = """# Policy language

A policy is one YAML file with `kind: Policy` and `rules`, a list. It is taken whole or refused with every problem and
its line. What rules mean together, with examples: [policies](../policies.md). Deny beats approval beats allow; where
no rule speaks, the call is denied.
"""
ABOUT = {
    "name": "its name in denials, approvals, statistics and the audit; unique in the file",
    "who": "a map with any of `project`, `network`, `agent`, `agent_type` and `caller`, each a glob",
    "tool": "a glob over the names of tools",
    "operation": "a glob over the tool's own word: read, write, call, …",
    "effect": "`allow`, `deny` or `require_approval`",
    "when": "a condition in CEL; without one the rule always applies",
    "max_calls_per_run": "so many calls in one run, its forks and the runs below it",
    "rate": "a map with `calls` and `per_s`: so many calls of the whole project in a window of `per_s` seconds",
    "max_cost_per_run_usd": "what the run may have spent on models before the call, in US dollars",
    "expires_s": "how long an approval may wait, in seconds",
    "quorum": "so many different people have to approve",
    "on_expiry": "what happens if nobody decides in time: `deny` or `escalate`",
    "discovered": "the rule also reaches tools that an MCP server was found to have",
    "note": "why it is so",
    "owner": "whose rule it is",
}
BOUNDS = {
    "max_calls_per_run": f"1 to {limits.MAX_CALLS:,}",
    "rate": f"`calls` 1 to {limits.MAX_CALLS:,}, `per_s` 1 to {limits.MAX_WINDOW_S:,}",
    "max_cost_per_run_usd": f"up to {limits.MAX_COST_USD:,}",
    "expires_s": f"{limits.MIN_EXPIRES_S} to {limits.MAX_EXPIRES_S:,}",
    "quorum": f"1 to {limits.MAX_QUORUM}",
}
NAMES = {
    "args": "the arguments, after the tool's schema has checked them",
    "run": "`id`, `project`, `network`, `step`, `labels`",
    "agent": "`key`, `type`",
    "caller": "on whose behalf the run goes",
    "origin": "where the values of the call come from ([provenance](../provenance.md))",
}


def policy_page() -> str:
    """Return the page."""
    keys = [(f"`{key}`", _default(key), BOUNDS.get(key, ""), about) for key, about in ABOUT.items()]
    names = [(f"`{name}`", about) for name, about in NAMES.items()]
    return "\n".join([
        _HEAD, "## Keys of a rule\n", table(("key", "default", "bounds", "what it is"), keys), "",
        f"A file has at most {limits.MAX_RULES:,} rules and {limits.MAX_NODES:,} values; after",
        f"{limits.MAX_PROBLEMS} problems no more is looked at.",
        "Globs know `*`, `?`, `[abc]` and `[!abc]`. Anchors and aliases of YAML are refused.", "",
        "## Conditions\n", "A condition is CEL and knows these names:\n", table(("name", "what it is"), names), "",
        f"Macros: {', '.join(f'`{name}`' for name in sorted(MACROS))}, and `has`.",
        "A condition that errs never allows, and counts as met on a rule that denies or asks.",
        "Refused are comments, raw texts and texts in three quotes.", "",
    ])  # fmt: skip


def _default(key: str) -> str:
    for field in fields(Rule):
        if field.name == key:
            value = "" if field.default is MISSING or field.default is None else field.default
            return f"`{str(value).lower() if isinstance(value, bool) else value}`" if value != "" else ""
    return ""
