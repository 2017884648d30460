"""Processes that are asked over a pipe: when they hang, and when they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from benchmarks.asked_process import AskedProcess, NoAnswerError
from tests.support import HANG_SECONDS

POLL_SECONDS = 0.01

ASKING = """
import sys, time
sys.path[:0] = {path!r}
from benchmarks.asked_process import AskedProcess
from tests.scripts.test_asked_process import compute_for_ever

if __name__ == "__main__":
    asked = AskedProcess(compute_for_ever, 1e9)
    asked.ask("pid")
    print(asked.message(), flush=True)
    time.sleep(1e6)
"""


def compute_for_ever(pipe: Connection) -> None:
    """Tell the number of this process, and never listen again."""
    pipe.recv()
    pipe.send(os.getpid())
    while True:
        pass


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process of its parent's end")
def test_nothing_is_left_where_the_one_that_asks_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "asking.py"
    script.write_text(ASKING.format(path=sys.path))
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True) as asking:
        assert asking.stdout is not None
        child = int(asking.stdout.readline())
        assert _is_there(child)
        asking.send_signal(signal.SIGKILL)
    _wait_for_the_end(child)


def sleep_for_ever(pipe: Connection) -> None:
    """Take a request, and do nothing."""
    pipe.recv()
    time.sleep(HANG_SECONDS)


def test_who_waits_for_a_processor_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    waits, asked = iter(range(20)), AskedProcess(sleep_for_ever, 0.02)
    module = "benchmarks.asked_process"
    monkeypatch.setattr(f"{module}._processor_seconds", lambda pid: 0.0)
    monkeypatch.setattr(f"{module}._waited_seconds", lambda thread: 2.0 ** next(waits, 20))
    asked.ask("anything")
    with pytest.raises(NoAnswerError, match="hang"):
        asked.message()
    assert next(waits, None) is None


def _wait_for_the_end(pid: int) -> None:
    for _ in range(int(HANG_SECONDS / POLL_SECONDS)):
        if not _is_there(pid):
            return
        time.sleep(POLL_SECONDS)
    raise AssertionError("the process is left")


def _is_there(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
