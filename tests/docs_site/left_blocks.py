"""The code blocks of the pages that are not run, and why, by `PAGE: how it begins`, or `PAGE:` for all the rest of it.

They are read by the command line's parser, a type checker, or whatever reads such files; outputs and drawings by nobody
(`tests/docs_site/block_list.py`). A reason says what is missing here, and what test does the same in another way.
"""

PLAYED = ""
"""The page's test runs it, though most of the page is left."""

LEFT = {
    "CONTRIBUTING.md: .ci/run": "the suite itself",
    "CONTRIBUTING.md: uv run --group dev pytest": "a part of the suite, whose paths test_code_blocks.py looks for",
    "README.md: pip install": (
        "needs a registry of packages; tests/e2e/test_demo.py installs the same extra by uvx, from a folder"
    ),
    "README.md: uv run": "the suite itself",
    "deploy/README.md: docker compose": (
        "needs docker; tests/unit/repository/test_deploy.py reads the files that they name"
    ),
    "deploy/README.md: export GRAFANA": (
        "needs docker; tests/unit/repository/test_deploy.py reads the files that it names"
    ),
    "docs/decisions/0013-faststream-for-request-reply.md:": "two lines of a service's wiring, with … for a subject",
    "docs/attacks-by-prompt.md:": "needs a registry of packages, and takes minutes",
    "docs/benchmarks.md:": "measurements of minutes and hours, some beside packages from a registry",
    "docs/guides/coming-from.md: export": PLAYED,
    "docs/guides/coming-from.md:": "programs of other frameworks, which test_coming_from.py reads and counts",
    "docs/guides/javascript.md:": (
        "needs a registry of packages; tests/e2e/sdk/test_guides.py builds and installs the client"
    ),
    "docs/guides/nats-agents.md:": "needs a registry of packages; the package is here",
    **dict.fromkeys(
        (
            *("docs/guides/three-machines.md: openssl", "docs/guides/three-machines.md: deploy/make-secrets"),
            "docs/guides/three-machines.md: install --directory --mode=0700 /backups",
            "docs/guides/three-machines.md: /opt/towpath-0.2/bin/towpath upgrade",
        ),
        PLAYED,
    ),
    "docs/guides/three-machines.md: towpath workers credential": PLAYED,
    "docs/guides/three-machines.md: listen_addresses": "the Postgres of the tests is built without TLS",
    "docs/guides/three-machines.md: hostssl": "the Postgres of the tests is built without TLS",
    "docs/guides/three-machines.md:": (
        "needs three machines with systemd and a Postgres of their own; tests/unit/deploy/test_units.py reads the units"
    ),
    **dict.fromkeys(
        ("docs/quickstart.md: python3 -m venv", "docs/quickstart.md: pip install uv"),
        "needs a registry of packages; what follows is run in such an environment",
    ),
    "docs/tool-access.md:": "a drawing",
    "docs/evaluation.md: towpath test        #": "the two commands of the page, each with what it is for",
    "docs/evaluation.md: towpath eval tests/evaluation.yaml\ntowpath eval --case": (
        "seconds of a process for each run; tests/unit/cli/test_evaluation.py runs each option"
    ),
    "examples/support/README.md: towpath up --sample": "a platform of its own, as test_demo.py has it",
    "docs/mcp.md: servers:": "needs uv in a home and a registry of packages; tests of the sandbox run such servers",
}
