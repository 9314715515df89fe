"""The code blocks of the pages that are not run, and why, by `PAGE: how it begins`, or `PAGE:` for all the rest of it.

They are read by the command line's parser, a type checker, or whatever reads such files; outputs and drawings by nobody
(`tests/docs_site/block_list.py`). A reason says what is missing here, and what test does the same in another way.
"""

PLAYED = ""
"""The page's test runs it, though most of the page is left."""

LEFT = {
    "docs/mcp.md: towpath mcp add": (
        "needs a registry of packages; tests/integration/worker/test_mcp_add.py adds servers"
    ),
    "docs/mcp.md: wrote": "an output",
    "docs/guides/cloudevents.md: {": "tests/integration/gateway/test_cloud_events.py submits such events",
    "docs/provenance.md: - {name": "only read: no test plays a call by this rule",
    "CONTRIBUTING.md: .ci/run": "the suite itself",
    "CONTRIBUTING.md: uv run --group dev pytest": "a part of the suite",
    "CONTRIBUTING.md: uv run python -m towpath_fabric.schemas": "tests/unit/repository/test_schemas.py calls it",
    "CONTRIBUTING.md: uv run --group dev python -m tests.supply_chain": (
        "tests/unit/repository/test_supply_chain.py calls it"
    ),
    "CONTRIBUTING.md: uv run --group dev python -m tests.release": "tests/unit/repository/test_release.py calls it",
    "README.md: git clone": "needs a repository to clone; tests/e2e/test_readme.py holds its words",
    "README.md: pip install": "needs a registry of packages; tests/e2e/test_demo.py runs the demo",
    "README.md: uvx": "needs a registry of packages; tests/e2e/test_demo.py runs the demo",
    "README.md: uv run": "the suite itself",
    "README.md: libs/": "the map of folders, held against them by tests/e2e/test_readme.py",
    "deploy/README.md: deploy/make-secrets ": (
        "needs docker and a registry of images; tests/unit/deploy/test_scripts.py runs the scripts"
    ),
    "deploy/README.md: towpath_gateway()": "needs docker; tests/e2e/test_deployed.py makes these keys",
    "deploy/README.md: towpath policy apply": "needs the keys of a deployment, each in place of an …",
    "deploy/README.md: docker compose": (
        "needs docker; tests/unit/repository/test_deploy.py reads the files that it names"
    ),
    "deploy/README.md: export GRAFANA": (
        "needs docker; tests/unit/repository/test_deploy.py reads the files that it names"
    ),
    "deploy/README.md: deploy/make-secrets --database": (
        "needs a Kubernetes cluster; tests/unit/deploy/chart renders the chart"
    ),
    "deploy/README.md: helm template": "needs a Kubernetes cluster; tests/unit/deploy/chart renders the chart",
    "docs/decisions/0013-faststream-for-request-reply.md:": "two lines of a service's wiring, with … for a subject",
    "deploy/README.md: image:": "values of the chart: its schema reads them",
    "docs/architecture.md:": "a drawing",
    "docs/attacks-by-prompt.md:": "needs a registry of packages, and takes minutes",
    "docs/benchmarks.md:": "measurements of minutes and hours, some beside packages from a registry",
    "docs/console.md:": "settings: the gateway reads them, the provider is not there",
    "docs/guides/coming-from.md: export": PLAYED,
    "docs/guides/coming-from.md:": "programs of other frameworks, which test_coming_from.py reads and counts",
    "docs/guides/deploying.md: deploy/make-secrets": "needs docker; tests/e2e/test_deployed.py runs a deployment",
    "docs/guides/deploying.md: docker": "needs docker; tests/e2e/test_deployed.py makes such keys",
    "docs/guides/deploying.md: towpath context": "needs a deployment at its public address",
    "docs/guides/javascript.md:": (
        "needs a registry of packages; tests/e2e/sdk/test_guides.py builds and installs the client"
    ),
    "docs/guides/nats-agents.md:": "needs a registry of packages; the package is here",
    "docs/guides/three-machines.md: deploy/make-secrets": PLAYED,
    "docs/guides/three-machines.md: towpath workers credential": PLAYED,
    "docs/guides/three-machines.md: listen_addresses": "the Postgres of the tests is built without TLS",
    "docs/guides/three-machines.md: hostssl": "the Postgres of the tests is built without TLS",
    "docs/guides/three-machines.md:": (
        "needs three machines with systemd and a Postgres of their own; tests/unit/deploy/test_units.py reads the units"
    ),
    "docs/guides/upgrading.md: -- oldest": "the head of a migration: it is read as one",
    **dict.fromkeys(
        ("docs/quickstart.md: python3 -m venv", "docs/quickstart.md: pip install uv"), "needs a registry of packages"
    ),
    "docs/reference/problems.md:": "a problem, read as what it is",
    "docs/reliability.md: server_name": "a part of a node's file: nats-server reads it",
    "docs/reliability.md: TOWPATH_": "settings: the services read them",
    "docs/reliability.md: towpath streams": (
        "needs a broker of three nodes; tests/e2e/faults/test_broker_cluster.py runs one"
    ),
    "docs/scheduling.md:": "settings: the decider reads them",
    "docs/testing.md: E  ": "an output",
    "docs/tool-access.md:": "a drawing",
    "docs/tools.md: [": "a part of an output",
    "docs/tracing.md:": "a drawing of spans",
    "docs/tutorial.md: fault": "an output of minutes, which differs each time",
    "docs/evaluation.md: towpath test": (
        "seconds of a process each; tests/e2e/sdk/test_projects.py runs it in such a folder"
    ),
    "docs/evaluation.md: towpath test        #": "an overview of the two commands of the page",
    "docs/evaluation.md: towpath eval tests/evaluation.yaml\ntowpath eval --case": (
        "seconds of a process for each run; tests/unit/cli/test_evaluation.py runs each option"
    ),
    "examples/support/README.md: towpath demo": "tests/e2e/test_demo.py runs it: a platform of its own",
    "examples/support/README.md: towpath up --sample": "a platform of its own, as test_demo.py has it",
    'docs/swarms.md: {"task": "Repair': "arguments of a call, which needs a judge",
    "docs/guides/approvals-in-chat.md: webhooks:": "a file, with which the guide's test starts a platform",
    "docs/operations.md: TOWPATH_READ_DATABASE_HOSTS": "settings: the services read them",
    "docs/operations.md: tls {": "a part of the broker's file: nats-server reads it",
    "docs/storage.md: GB =": "arithmetic",
    "docs/projects.md: # yaml-language-server": "a line of a file for editors",
    "docs/mcp.md: kind: McpServers": "tests/e2e/protocols/test_mcp_example.py runs such a file",
    "docs/mcp.md: servers:": "needs uv in a home and a registry of packages; tests of the sandbox run such servers",
    "docs/mcp.md: towpath tools proposals": (
        "needs a server that has changed; tests/integration/worker/test_mcp_platform.py has one"
    ),
    "docs/approvals.md: webhooks:": "a file of the deployment, with addresses that are not there",
    "docs/approvals.md: smtp:": "a file of the deployment, with addresses that are not there",
    'docs/approvals.md: {"type": "gate.opened"': "what a webhook sends, with … for values",
    'docs/policies.md: {"network": "support", "user_message": "…"': "a grant of mail.send, which no network here has",
    'docs/budgets.md: "openai:our-finetune"': "a file of prices, which is read at a start",
    "docs/agents.md: async with request.model_call": "two calls of it are another library's, with … for arguments",
    "docs/plans.md: invoke_workflow": "a drawing of spans",
    'docs/models.md: [\n  {"kind": "validate"': "entries of assessments, which tests of goals play",
    "docs/networks.md: from towpath import Agent, embedded": "tests/integration/embedded starts such platforms",
    "docs/models.md: TOWPATH_NATIVE_TOOLS": "settings: the decider reads them",
}
