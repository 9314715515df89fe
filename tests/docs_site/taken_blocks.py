"""Blocks that a test takes from a page one by one, beside those of pages that are played from beginning to end.

Such a test runs the block as it stands: it is what a service is started with, what is sent, or what has to be printed.
"""

import functools
import re
import shlex

from tests.docs_site.code_blocks import CodeBlock, all_blocks

_all_blocks = functools.cache(all_blocks)
_OF_DEPLOYMENT = "tests/e2e/test_deployed.py"
_OF_CHART = "tests/unit/deploy/chart/test_page.py"
_OF_FRAGMENTS = "tests/unit/testing/test_page_fragments.py"
_OF_OUTPUTS = "tests/unit/docs_site/test_shown_blocks.py"
TAKEN_BY: dict[str, str] = {
    "deploy/README.md: deploy/make-secrets  ": _OF_DEPLOYMENT,
    "CONTRIBUTING.md: uv run --group dev python -m tests.release": "tests/e2e/distributions/test_release.py",
    "CONTRIBUTING.md: uv run --group dev python -m tests.supply_chain": "tests/unit/repository/test_supply_chain.py",
    "CONTRIBUTING.md: uv run python -m towpath_fabric.schemas": "tests/unit/repository/test_schemas.py",
    "deploy/README.md: deploy/make-secrets --database": _OF_CHART,
    "deploy/README.md: helm template": _OF_CHART,
    "deploy/README.md: image:": _OF_CHART,
    "deploy/README.md: docker compose --file deploy/compose.yaml stop nats": _OF_DEPLOYMENT,
    "deploy/README.md: towpath policy apply": _OF_DEPLOYMENT,
    "deploy/README.md: towpath_gateway()": _OF_DEPLOYMENT,
    "docs/guides/deploying.md: deploy/make-secrets": _OF_DEPLOYMENT,
    "docs/guides/deploying.md: docker compose": _OF_DEPLOYMENT,
    "docs/guides/deploying.md: towpath context": _OF_DEPLOYMENT,
    "examples/support/README.md: towpath demo": "tests/e2e/test_demo.py",
    "README.md: git clone": "tests/e2e/test_readme.py",
    "README.md: uvx": "tests/e2e/test_demo.py",
    "README.md: libs/": "tests/e2e/test_readme.py",
    'docs/approvals.md: {"type": "gate.opened"': "tests/unit/orchestrator/test_webhooks.py",
    "docs/agents.md: async with request.model_call": _OF_FRAGMENTS,
    'docs/models.md: [\n  {"kind": "validate"': _OF_FRAGMENTS,
    "docs/provenance.md: - {name: strangers": _OF_FRAGMENTS,
    "docs/provenance.md: - {name: told-to-strangers": _OF_FRAGMENTS,
    'docs/swarms.md: {"task": "Repair': _OF_FRAGMENTS,
    "docs/approvals.md: smtp:": "tests/integration/orchestrator/test_gate_notices.py",
    "docs/approvals.md: webhooks:": "tests/integration/orchestrator/test_gate_notices.py",
    "docs/architecture.md: __main__.py": _OF_OUTPUTS,
    "docs/architecture.md: orchestrator": _OF_OUTPUTS,
    "docs/architecture.md: replay": _OF_OUTPUTS,
    'docs/budgets.md: "openai:our-finetune"': "tests/unit/fabric/test_model_price_list.py",
    "docs/console.md: TOWPATH_OIDC_ISSUER": "tests/integration/gateway/test_oidc_sign_in.py",
    "docs/evaluation.md: towpath test\n": "tests/e2e/sdk/test_projects.py",
    "docs/guides/upgrading.md: -- oldest": "tests/integration/fabric/upgrades/test_migrations.py",
    "docs/reliability.md: server_name": "tests/e2e/pages/test_pages_of_operations.py",
    "docs/reliability.md: TOWPATH_NATS_URL": "tests/e2e/pages/test_pages_of_operations.py",
    "docs/reliability.md: towpath streams": "tests/e2e/pages/test_pages_of_operations.py",
    "docs/guides/approvals-in-chat.md: webhooks:": "tests/e2e/sdk/test_guides.py",
    "docs/guides/cloudevents.md: {": "tests/integration/gateway/test_cloud_events.py",
    "docs/mcp.md: towpath tools proposals": "tests/integration/worker/test_mcp_platform.py",
    "docs/models.md: TOWPATH_NATIVE_TOOLS": "tests/integration/decider/test_native_tools.py",
    "docs/networks.md: from towpath import Agent, embedded": "tests/integration/embedded/test_embedded_server.py",
    "docs/operations.md: TOWPATH_READ_DATABASE_HOSTS": "tests/integration/fabric/outages/test_read_replica.py",
    "docs/operations.md: tls {": "tests/integration/fabric/test_login.py",
    "docs/plans.md: invoke_workflow papers": "tests/support/platform/run_traces.py",
    "docs/projects.md: # yaml-language-server": "tests/e2e/sdk/test_projects.py",
    "docs/reference/problems.md: {": _OF_OUTPUTS,
    "docs/reliability.md: TOWPATH_DATABASE_URL": "tests/integration/fabric/outages/test_read_replica.py",
    "docs/scheduling.md: TOWPATH_PROVIDER_LIMITS": "tests/integration/decider/test_provider_limits.py",
    "docs/storage.md: GB =": _OF_OUTPUTS,
    "docs/testing.md: E  ": "tests/unit/testing/test_told_failures.py",
    "docs/tools.md: [": _OF_OUTPUTS,
    "docs/tracing.md: POST /v1/runs": "tests/support/platform/run_traces.py",
    "docs/tutorial.md: fault": _OF_OUTPUTS,
}
"""The test that takes a block, by `PAGE: how it begins`."""


def begins_so(key: str, block: CodeBlock) -> bool:
    """Say whether *key*, a page and how a block of it begins, is about *block*; `PAGE:` is about all blocks of it."""
    page, _, begin = key.partition(":")
    return page == block.page and block.text.startswith(begin.lstrip())


def taken(key: str) -> CodeBlock:
    """Return the one block that *key* of `TAKEN_BY` is about."""
    assert key in TAKEN_BY, f"name the test that takes {key!r} in TAKEN_BY"
    (block,) = [one for one in _all_blocks() if not one.name and begins_so(key, one)]
    return block


def settings_of(block: CodeBlock) -> dict[str, str]:
    """Return the variables that *block* sets, as a shell or systemd reads them."""
    return dict(line.split("=", 1) for line in shlex.split(block.text, comments=True))


def drawn_pairs(block: CodeBlock) -> set[tuple[str, str]]:
    """Return each name of a drawn tree, and the name that it stands below; what follows two spaces is about a name."""
    pairs, above = set(), dict[int, str]()
    for line in block.text.splitlines():
        found = re.fullmatch(r"([ │├└]*)(\S+(?: \S+)*)(?:  +.*)?", line)
        assert found, line
        depth, name = len(found[1]), found[2]
        above = {one: text for one, text in above.items() if one < depth} | {depth: name}
        pairs |= {(name, above[max(one for one in above if one < depth)])} if len(above) > 1 else set()
    return pairs


def taken_by(block: CodeBlock) -> str:
    """Return the test that takes *block*; nothing where none does."""
    return next((test for key, test in TAKEN_BY.items() if begins_so(key, block)), "")
