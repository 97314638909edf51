"""Tasks for contributors: ``nox -l`` lists them, ``nox -s tests`` runs one.

Sessions run in the active environment (``pip install -e '.[dev]'``); nox makes none of its own.
``.ci/run`` and the hosted workflows call the same sessions, so that each command is written once.
"""

from __future__ import annotations

import nox

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "tests"]


@nox.session
def tests(session: nox.Session) -> None:
    """Run the standard test suite (a few minutes)."""
    session.run("pytest", "-n", "auto", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """Run what the standard suite leaves out: slow, fuzz, fault and browser tests."""
    session.run("pytest", "-n", "auto", "-m", "slow", *session.posargs)


@nox.session
def boundscheck(session: nox.Session) -> None:
    """Run the fuzz tests with every array index of compiled code checked."""
    # numba's cache does not depend on this flag, so the checked code needs a cache of its own.
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": session.create_tmp()}
    session.run("pytest", "-n", "auto", "-m", "fuzz", "tests/fuzz", *session.posargs, env=checked)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation, run every example; a warning is an error."""
    session.run(
        "python", "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html",
        "docs", "docs/_build/html", *session.posargs,
    )  # fmt: skip


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, formatting and types."""
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("mypy")


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure the line and branch coverage of all tests, per room of the source tree."""
    session.run("coverage", "erase")
    session.run("pytest", "-n", "auto", "-m", "", "--cov", "--cov-report=", *session.posargs)
    session.run("coverage", "json", "-q", "-o", "coverage.json")
    session.run("python", ".ci/coverage_by_room.py", "coverage.json")


@nox.session
def ci(session: nox.Session) -> None:
    """Run everything that a change must pass, in a fresh virtual environment."""
    session.run("bash", ".ci/run")


@nox.session
def minimum(session: nox.Session) -> None:
    """Run the tests with the lowest supported versions, in a fresh virtual environment."""
    session.run("bash", ".ci/minimum", *session.posargs)
