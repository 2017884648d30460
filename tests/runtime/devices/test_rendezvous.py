"""Meetings that go on after others, which failure is told, and the words of collectives."""

from __future__ import annotations

from ctypes import sizeof

import numpy as np
import pytest
from tests.runtime.devices.test_collectives import MODES, SIZES, UNEVEN, one, text
from tests.runtime.devices.test_failures import SUM, X, compiled, ended

import lowtide
from lowtide.runtime.devices import block
from lowtide.runtime.devices.collective_block import CollectiveBlock
from lowtide.runtime.devices.rendezvous import DeviceRendezvous, RendezvousError

TWO = SUM.replace("ROOT sum.1 = f32[8] all-reduce(x)", "first = f32[8] all-reduce(x)").replace(
    "to_apply=add\n}\n",
    """to_apply=add
  second = f32[8] negate(first)
  ROOT last.1 = f32[8] all-reduce(second), channel_id=2, use_global_device_ids=true, replica_groups={}, to_apply=add
}
""",  # noqa: E501
)


def test_a_device_that_ends_after_meetings_is_not_waited_for() -> None:
    """All have met several times when one ends, and the others come once more."""
    short, long = compiled(SUM), compiled(TWO)

    def all_of_it() -> None:
        for _ in range(3):
            short(X)
        long(X)

    def ends_early() -> None:
        for _ in range(3):
            short(X)

    raised = ended(
        DeviceRendezvous(1, 4), {0: all_of_it, 1: all_of_it, 2: ends_early, 3: all_of_it}
    )
    assert raised.pop(2) is None
    for error in raised.values():
        assert isinstance(error, RendezvousError)
        assert "wait for others that never come" in str(error)


def test_of_several_failures_the_first_is_told() -> None:
    run = compiled(SUM)
    rendezvous = DeviceRendezvous(1, 4)
    for number, words in ((2, "the cause"), (0, "what followed")):
        with pytest.raises(ValueError, match=words), rendezvous.device(number):
            raise ValueError(words)
    rendezvous.fail("from outside")
    cause = "device 2 failed: ValueError: the cause"
    with pytest.raises(RendezvousError, match=cause), rendezvous.device(1):
        run(X)


def most_buffers(words: np.ndarray, devices: int) -> int:
    """The most buffers of a kernel in the words of a collective, by a walk over all runs."""
    most = 0
    for device in range(devices):
        entry = (sizeof(block.CollectiveRecord) + device * sizeof(block.DeviceWork)) // 8
        at = int(words[entry + 1] - words.ctypes.data) // 8
        count = int(words[at])
        at += 1
        for _ in range(count):
            buffers = int(words[at + 3])
            most = max(most, buffers)
            at += 4 + 2 * buffers
    return most


@pytest.mark.parametrize(
    ("opcode", "mode"),
    [
        ("all-reduce", "uneven"),
        *[
            (opcode, mode)
            for opcode in ("all-reduce", "all-gather", "reduce-scatter")
            for mode in ("both", "global", "partitions_of_each_replica")
        ],
    ],
)
def test_each_kernel_of_a_collective_has_room_for_its_buffers(
    opcode: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[CollectiveBlock] = []
    begin = CollectiveBlock.__init__

    def noted(self: CollectiveBlock, *given: object) -> None:
        begin(self, *given)
        made.append(self)

    monkeypatch.setattr(CollectiveBlock, "__init__", noted)
    size = SIZES.get(mode, 2)
    given = f"f32[{3 * size},5]" if opcode == "reduce-scatter" else "f32[3,5]"
    result = f"f32[{3 * size},5]" if opcode == "all-gather" else "f32[3,5]"
    rest = UNEVEN if mode == "uneven" else MODES[mode]
    rest += ", to_apply=add" if opcode != "all-gather" else ""
    rest += ", dimensions={0}" if opcode != "all-reduce" else ""
    executable = lowtide.compile(lowtide.parse_hlo(text(one(opcode, given, result, rest))))
    lowtide.run_on_devices(executable, [[np.ones(_sizes(given), np.float32)]] * 8)
    (found,) = made
    area, slot, _ = found._words[:3]
    assert slot == area - 1
    assert found.workspace >= area + most_buffers(found._words, 8)
    assert most_buffers(found._words, 8) > 0


def _sizes(shape: str) -> list[int]:
    return [int(x) for x in shape.removeprefix("f32[").removesuffix("]").split(",")]
