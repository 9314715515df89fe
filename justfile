# The commands of everyday work; `just` alone lists them. Install just with `uv tool install rust-just`.

set shell := ["bash", "-euo", "pipefail", "-c"]

run := "uv run --quiet --group dev"

[private]
default:
    @just --list --unsorted

# decides whether a change is done: everything, as in CI
check:
    .ci/run

# the inner loop: format, lint, types, directions of imports, unit tests
fast: lint
    {{ run }} pytest tests/unit

# all tests, or those that the arguments name
test *arguments:
    {{ run }} pytest {{ arguments }}

# one file of tests, in one process
one file *arguments:
    {{ run }} pytest -n 0 {{ file }} {{ arguments }}

# the unit tests on another interpreter, such as 3.13, in an environment of its own
python version *arguments="tests/unit":
    UV_PROJECT_ENVIRONMENT=build/python-{{ version }} {{ run }} --python {{ version }} pytest {{ arguments }}

# formats and mends what can be mended, then says what is left
lint:
    {{ run }} ruff format .
    {{ run }} ruff check --fix .
    {{ run }} mypy
    {{ run }} lint-imports

# the whole platform in this terminal
up *arguments:
    uv run --quiet towpath up {{ arguments }}

# the documents for programs, into build/docs
docs folder="build/docs":
    {{ run }} python -m towpath_fabric.schemas {{ folder }}

# the pages as a site, into build/docs-site; `site reference` writes the generated pages anew
site command="build":
    {{ run }} python -m tests.docs_site {{ command }}

# builds and checks a release, for a person to commit, tag and upload; `--dry-run` behind the version changes nothing
release version *arguments:
    {{ run }} python -m tests.release prepare {{ version }} {{ arguments }}
