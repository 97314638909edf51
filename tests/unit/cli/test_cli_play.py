"""``widemargin play``: what is checked before a page is served, and that it ends when told to."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import widemargin
from widemargin.cli import app
from widemargin.play import server

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)/(\S*)")


def run(*args):
    return CliRunner().invoke(app, ["play", *args])


def test_a_link_is_passed_on(monkeypatch):
    seen = []
    monkeypatch.setattr(server, "serve", lambda link, **options: seen.append((link, options)))
    assert run("http://127.0.0.1:5/#abc", "--no-browser").exit_code == 0
    assert run().exit_code == 0
    (link, options), (none, usual) = seen
    assert link.endswith("#abc")
    assert options["open_browser"] is False
    assert none == ""
    assert usual["open_browser"] is True


def test_a_link_without_a_picture_is_refused():
    found = run("http://127.0.0.1:5/")
    assert found.exit_code == 2
    assert "#" in found.output


@pytest.mark.skipif(sys.platform == "win32", reason="has no SIGINT for one process")
def test_it_serves_until_it_is_interrupted():
    command = [sys.executable, "-m", "widemargin", "play", "--no-browser", "http://x/#abc"]
    here = {**os.environ, "PYTHONPATH": str(Path(widemargin.__file__).parents[1])}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=here) as process:
        try:
            told = ADDRESS.search(process.stdout.readline())
            assert told
            assert told[2] == "#abc"
            connection = http.client.HTTPConnection("127.0.0.1", int(told[1]), timeout=60)
            connection.request("GET", "/api/catalogue")
            assert connection.getresponse().status == 200
            connection.close()
            process.send_signal(signal.SIGINT)
            assert process.wait(60) in (0, 130)
        finally:
            process.kill()
