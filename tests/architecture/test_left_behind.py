"""What a test leaves running is found, ended, and fails that test."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import left_behind
from tests.left_behind import LeftBehind

SLEEP = ["sleep", "600"]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> LeftBehind:
    """What runs before a test is known."""
    monkeypatch.setattr(left_behind, "GONE_WITHIN_S", 0.1)
    monkeypatch.setattr(threading.Thread, "start", threading.Thread.start)
    return LeftBehind()


def test_a_process_is_ended(found: LeftBehind) -> None:
    assert found.end() == []
    with subprocess.Popen(SLEEP) as process:
        assert found.end() == [f"process {process.pid}: sleep 600"]
    assert process.returncode == -signal.SIGKILL
    assert found.end() == []


def test_an_orphan_is_ended(found: LeftBehind) -> None:
    started = subprocess.run(
        ["sh", "-c", "setsid sleep 600 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True
    )
    assert found.end() == [f"process {int(started.stdout)}: sleep 600"]
    assert os.waitpid(int(started.stdout), 0)[1] == signal.SIGKILL


def test_what_ends_in_time_is_no_matter(found: LeftBehind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(left_behind, "GONE_WITHIN_S", 30.0)
    with subprocess.Popen(["sleep", "0.1"]) as process:
        assert found.end() == []
    assert process.returncode == 0


def test_what_a_fixture_has_started_may_stay_until_it_ends(found: LeftBehind) -> None:
    go_on, end = threading.Event(), threading.Event()
    later = threading.Thread(target=end.wait, name="a later one")

    def start_another() -> None:
        go_on.wait()
        later.start()
        end.wait()

    with found.starting("a fixture"):
        process = subprocess.Popen(["sh", "-c", "read line; sleep 600; :"], stdin=subprocess.PIPE)
        first = threading.Thread(target=start_another, name="one of a fixture")
        first.start()
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    go_on.set()
    assert found.end() == []
    found.ended("a fixture")
    told = found.end()
    end.set()
    process.wait()
    assert f"process {process.pid}: sh -c read line; sleep 600; :" in told
    assert {"thread one of a fixture", "thread a later one"} <= {*told}


def test_what_a_fixture_has_started_may_be_started_again(found: LeftBehind) -> None:
    def start() -> subprocess.Popen[bytes]:
        """It runs its program by then, and not ours any more."""
        program = ["sh", "-c", "echo; read line"]
        made = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert made.stdout is not None
        assert made.stdout.readline() == b"\n"
        return made

    with found.starting("a fixture"):
        first = start()
    first.kill()
    first.communicate()
    with start() as process:
        assert found.end() == []
        found.ended("a fixture")
        assert found.end() == [f"process {process.pid}: sh -c echo; read line"]


def test_threads_and_signals_are_told(found: LeftBehind) -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="one that waits")
    thread.start()
    before = signal.signal(signal.SIGHUP, print)
    told = found.end()
    end.set()
    thread.join()
    assert told[0] == "thread one that waits"
    assert told[1].startswith("SIGHUP")
    assert signal.getsignal(signal.SIGHUP) == before


SUITE = """
import subprocess
import pytest
from tests import left_behind

left_behind.GONE_WITHIN_S = 0.1

@pytest.fixture(scope="module")
def server():
    with subprocess.Popen(["sleep", "601"]) as process:
        yield
        process.kill()

def test_one_that_is_neat(server): pass
def test_one_that_leaves_something(server): subprocess.Popen(["sleep", "602"])
def test_another_that_is_neat(server): pass
"""


@pytest.mark.slow
def test_a_test_fails_by_what_it_left(tmp_path: Path) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    options = ("-p", "tests.conftest", "-c", os.devnull, "--rootdir", str(tmp_path))
    said = subprocess.run(
        [sys.executable, "-m", "pytest", *options, str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    ).stdout
    assert "3 passed, 1 error" in said
    assert "ERROR at teardown of test_one_that_leaves_something" in said
    assert "sleep 602" in said
    assert "sleep 601" not in said
