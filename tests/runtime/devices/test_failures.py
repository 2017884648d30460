"""Runs on several devices that come to no end: one error for all of them, and nobody hangs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.support import HANG_SECONDS

import lowtide
from lowtide.ir import InputError
from lowtide.runtime.devices.rendezvous import (
    DeviceRendezvous,
    RendezvousError,
    current_participant,
)

GLOBAL = "channel_id=1, use_global_device_ids=true, replica_groups={}"
ADD = """
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
"""
SUM = f"""HloModule m, num_partitions=4
{ADD}
ENTRY e {{
  x = f32[8] parameter(0)
  ROOT sum.1 = f32[8] all-reduce(x), {GLOBAL}, to_apply=add
}}
"""
DIVERGING = f"""HloModule m, num_partitions=4
{ADD}
one {{
  x = f32[8] parameter(0)
  ROOT first.1 = f32[8] all-reduce(x), {GLOBAL}, to_apply=add
}}
other {{
  x = f32[8] parameter(0)
  ROOT second.1 = f32[8] all-reduce(x), {GLOBAL}, to_apply=add
}}
ENTRY e {{
  x = f32[8] parameter(0)
  p = pred[] parameter(1)
  ROOT r = f32[8] conditional(p, x, x), true_computation=one, false_computation=other
}}
"""
X = np.ones(8, np.float32)


def compiled(text: str) -> lowtide.Executable:
    return lowtide.compile(lowtide.parse_hlo(text))


def ended(
    rendezvous: DeviceRendezvous, devices: dict[int, object]
) -> dict[int, BaseException | None]:
    """Return what the block of each device raised, each of which is called on its own thread."""
    raised: dict[int, BaseException | None] = {}

    def run(number: int, block: object) -> None:
        try:
            with rendezvous.device(number):
                block()
            raised[number] = None
        except BaseException as error:
            raised[number] = error

    threads = [threading.Thread(target=run, args=x, daemon=True) for x in devices.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
    return raised


def test_outside_of_a_meeting_a_call_is_refused() -> None:
    with pytest.raises(InputError, match=r"m runs on 4 devices, which meet in %sum\.1: give"):
        compiled(SUM)(X)


def test_a_meeting_of_other_devices_is_refused() -> None:
    run = compiled(SUM)
    raised = ended(DeviceRendezvous(2, 2), {0: lambda: run(X)})
    assert isinstance(raised[0], InputError)
    assert "runs on 1 x 4 replicas and partitions, the rendezvous is one of 2 x 2" in str(raised[0])


def test_numbers_of_devices_are_taken_once() -> None:
    rendezvous = DeviceRendezvous(1, 2)
    with pytest.raises(InputError, match="device 2 is none of the 2"), rendezvous.device(2):
        pass
    with rendezvous.device(0):
        participant = current_participant()
        assert participant is not None
        assert participant.number == 0
        with pytest.raises(InputError, match="a device of a run already"), rendezvous.device(1):
            pass
    assert current_participant() is None
    with pytest.raises(InputError, match="has run already"), rendezvous.device(0):
        pass


@pytest.mark.parametrize(("replicas", "seconds"), [(0, 1.0), (1, 0.0), (1, -1.0)])
def test_meetings_that_cannot_be(replicas: int, seconds: float) -> None:
    with pytest.raises(InputError):
        DeviceRendezvous(replicas, 1, timeout_seconds=seconds)


def test_the_number_of_argument_lists_is_that_of_devices() -> None:
    with pytest.raises(InputError, match="runs on 4 devices, found arguments of 3"):
        lowtide.run_on_devices(compiled(SUM), [[X]] * 3)


def test_an_argument_that_does_not_fit_ends_all() -> None:
    with pytest.raises(InputError, match="parameter 0"):
        lowtide.run_on_devices(compiled(SUM), [[X], [X], [X[:3]], [X]])


def test_the_error_of_one_device_ends_the_others_by_name() -> None:
    run = compiled(SUM)

    def fails() -> None:
        time.sleep(0.2)
        raise ValueError("no more")

    raised = ended(
        DeviceRendezvous(1, 4), {0: lambda: run(X), 1: lambda: run(X), 2: fails, 3: lambda: run(X)}
    )
    assert isinstance(raised[2], ValueError)
    for number in (0, 1, 3):
        assert isinstance(raised[number], RendezvousError)
        assert str(raised[number]) == "device 2 failed: ValueError: no more"


def test_who_comes_later_than_the_failure_ends_too() -> None:
    run = compiled(SUM)
    rendezvous = DeviceRendezvous(1, 4)
    with pytest.raises(ValueError, match="early"), rendezvous.device(1):
        raise ValueError("early")
    with (
        pytest.raises(RendezvousError, match="device 1 failed: ValueError: early"),
        rendezvous.device(0),
    ):
        run(X)


def test_time_is_over_for_devices_that_never_come() -> None:
    run = compiled(SUM)
    rendezvous = DeviceRendezvous(1, 4, timeout_seconds=0.3)
    raised = ended(rendezvous, {0: lambda: run(X), 3: lambda: run(X)})
    for number in (0, 3):
        assert isinstance(raised[number], RendezvousError)
        assert "devices waited for 0.3 s" in str(raised[number])
        # Which of the two comes first, and whether in time for the other, is the machine's.
        assert re.search(r"device \d waits at %sum\.1 for (0, )?1, 2(, 3)?", str(raised[number]))


def test_a_device_that_ends_early_is_not_waited_for() -> None:
    run = compiled(SUM)
    devices = {0: lambda: run(X), 1: lambda: run(X), 2: lambda: None, 3: lambda: run(X)}
    raised = ended(DeviceRendezvous(1, 4), devices)
    assert raised.pop(2) is None
    for error in raised.values():
        assert "wait for others that never come" in str(error)
        assert "device 0 waits at %sum.1 for 2" in str(error)


def test_devices_at_different_operations_are_told_so() -> None:
    run = lowtide.compile(lowtide.parse_hlo(DIVERGING), stage="input")
    arguments = [[X, np.bool_(number != 2)] for number in range(4)]
    with pytest.raises(RendezvousError, match="never come") as raised:
        lowtide.run_on_devices(run, arguments)
    assert "device 2 waits at %second.1 for 0, 1, 3" in str(raised.value)
    assert "device 0 waits at %first.1 for 2" in str(raised.value)


def test_a_meeting_can_be_ended_from_outside() -> None:
    run = compiled(SUM)
    rendezvous = DeviceRendezvous(1, 4)
    threading.Timer(0.2, lambda: rendezvous.fail("enough")).start()
    raised = ended(rendezvous, {0: lambda: run(X)})
    assert str(raised[0]) == "enough"


SCRIPT = """
import sys
import time
import numpy as np
import lowtide
from lowtide.runtime.devices.rendezvous import DeviceRendezvous
class Slow(list):
    def __iter__(self):
        time.sleep(600)

run = lowtide.compile(lowtide.parse_hlo(sys.argv[1]), cache=False)
x = np.ones(8, np.float32)
rendezvous = DeviceRendezvous(1, 4)
try:
    print("ready", flush=True)
    WAIT
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


ALONE = "with rendezvous.device(0): run(x)"
ALL = "lowtide.run_on_devices(run, [[x], [x], [x], Slow()])"


@pytest.mark.parametrize("wait", [ALONE, ALL])
def test_ctrl_c_ends_the_run(wait: str) -> None:
    text = SCRIPT.replace("WAIT", wait)
    process = subprocess.Popen(
        [sys.executable, "-c", text, SUM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(1.0)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=HANG_SECONDS)
    assert out == "interrupted\n", err


def test_no_memory_stays_behind() -> None:
    run = compiled(SUM)
    for _ in range(50):
        lowtide.run_on_devices(run, [[X]] * 4)
    with open("/proc/self/statm", encoding="ascii") as file:
        before = int(file.read().split()[1])
    for _ in range(1000):
        lowtide.run_on_devices(run, [[X]] * 4)
    with open("/proc/self/statm", encoding="ascii") as file:
        after = int(file.read().split()[1])
    assert (after - before) * 4096 < 8 << 20
