"""Collectives in programs as bytes: those that cannot be are refused when they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import lowtide
from lowtide.client.executable.anew import compile_anew
from lowtide.ir import InputError
from lowtide.ir.thunk import CollectiveThunk, collective_thunks
from lowtide.runtime.cpu.program import NativeProgram
from lowtide.runtime.cpu.serial import deserialize, serialize

TEXT = """HloModule m, num_partitions=4

ENTRY e {
  x = f32[6] parameter(0)
  g = f32[12] all-gather(x), channel_id=1, replica_groups={{1,0},{2,3}}, dimensions={0}, GLOBAL
  ROOT p = f32[12] collective-permute(g), channel_id=2, source_target_pairs={{0,3},{2,1}}
}
""".replace("GLOBAL", "use_global_device_ids=true")


def program() -> NativeProgram:
    return compile_anew(lowtide.parse_hlo(TEXT)).program


def changed(found: NativeProgram, number: int, **fields: Any) -> NativeProgram:
    """Return a program in which a collective is another one."""
    thunk = collective_thunks(found.thunks)[number]
    other = replace(thunk, collective=replace(thunk.collective, **fields))
    return replace(found, thunks=tuple([other if x == thunk else x for x in found.thunks]))


def test_equal_programs_are_equal_bytes_and_come_back() -> None:
    found = program()
    again = deserialize(serialize(found))
    assert again.thunks == found.thunks
    assert (again.replicas, again.partitions) == (1, 4)
    assert serialize(again) == serialize(program())
    assert all(isinstance(x, CollectiveThunk) for x in collective_thunks(again.thunks))


@pytest.mark.parametrize(
    ("number", "fields", "message"),
    [
        (0, {"groups": ((0, 1), (2, 2))}, "in no group, or in two"),
        (0, {"groups": ((0, 1), (2, 9))}, "in no group, or in two"),
        (1, {"pairs": ((0, 4),)}, "a place of a group is none"),
        (1, {"pairs": ((-1, 1),)}, "a place of a group is none"),
        (0, {"operands": ()}, "other buffers than arrays"),
    ],
)
def test_exchanges_that_cannot_be_are_refused(
    number: int, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        deserialize(serialize(changed(program(), number, **fields)))


@pytest.mark.parametrize("field", ["kernel", "slot"])
def test_steps_of_nothing_are_refused(field: str) -> None:
    found = program()
    step = collective_thunks(found.thunks)[0].collective.steps[0]
    if field == "kernel":
        wrong = replace(step, kernel=99)
    else:
        wrong = replace(step, buffers=(replace(step.buffers[0], slot=7), *step.buffers[1:]))
    with pytest.raises(InputError, match="no kernel or of no buffer"):
        deserialize(serialize(changed(found, 0, steps=(wrong,))))


def test_a_program_runs_on_one_device_at_least() -> None:
    with pytest.raises(InputError, match="one device at least"):
        deserialize(serialize(replace(program(), partitions=0)))
