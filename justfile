# Common tasks; `just --list` explains them. scripts/test creates the virtual environment that they use.

venv := env("OPMKIT_VENV", ".venv")
bin := venv / "bin"

# Format the code and apply safe fixes
fix:
    {{bin}}/ruff check --fix .
    {{bin}}/ruff format .

# Check formatting, lint, types, the direction of imports and spelling
check:
    {{bin}}/ruff check .
    {{bin}}/ruff format --check .
    {{bin}}/mypy
    {{bin}}/lint-imports --no-cache
    {{bin}}/codespell

# Run the tests, with --all the long ones, too; arguments go to pytest, for example: just test tests/index -k graph
test *arguments:
    scripts/test {{arguments}}

# Run the unit tests
unit *arguments:
    {{bin}}/pytest -q -n auto -m unit --hypothesis-profile quick tests/api tests/author tests/bundle tests/cli tests/client tests/core tests/documents tests/imagetools tests/index tests/kube tests/server tests/supply {{arguments}}

# Run the unit tests with the lowest versions of the dependencies
lowest *arguments:
    scripts/test-lowest {{arguments}}

# Run the pipeline from manifests to an index image
demo *arguments:
    scripts/demo {{arguments}}

# Build the documentation as a web site in .site
docs:
    {{bin}}/mkdocs build --strict --site-dir .site

# Update the lock files after a change to the dependencies
lock *arguments:
    scripts/lock {{arguments}}

# Check the locked dependencies for known vulnerabilities
audit *arguments:
    scripts/audit {{arguments}}
