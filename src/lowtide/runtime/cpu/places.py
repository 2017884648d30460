"""Places that a stored program names: each lies in its memory, each number means something."""

from __future__ import annotations

from collections.abc import Iterator

from lowtide.ir.buffer import NO_BYTES, BufferSlice
from lowtide.ir.collective import NUMBERS, DeviceCollective, Whose
from lowtide.ir.literal import DTYPES
from lowtide.ir.thunk import (
    CollectiveThunk,
    HostCallThunk,
    KernelThunk,
    all_thunks,
    kernels_of_bundles,
)
from lowtide.runtime.cpu.program import NativeProgram


def check_places(program: NativeProgram) -> None:
    """Raise ValueError for a slice outside of its allocation, or a number that nothing has."""
    if not all(type(x) is int and x > 0 for x in (program.replicas, program.partitions)):
        raise ValueError("a program runs on one device at least")
    sizes = [x.nbytes for x in program.interface.memories]
    if any(not isinstance(x, int) or x < 0 for x in sizes):
        raise ValueError("an allocation has no size")
    for place in _slices(program):
        if place == NO_BYTES:
            continue
        numbers = (place.allocation, place.offset, place.nbytes)
        if not all(type(x) is int and x >= 0 for x in numbers) or place.allocation >= len(sizes):
            raise ValueError("a slice is of no allocation")
        if place.offset + place.nbytes > sizes[place.allocation]:
            raise ValueError("a slice lies outside of its allocation")
    for argument in program.interface.arguments:
        if not -1 <= argument.allocation < len(sizes):
            raise ValueError("an argument is no allocation")
    for index, values in program.constants:
        if not 0 <= index < len(sizes) or values.size > sizes[index]:
            raise ValueError("a constant is no allocation")
    for thunk in all_thunks(program.thunks):
        if isinstance(thunk, KernelThunk) and not (
            0 <= thunk.kernel < len(program.kernels) and 0 <= thunk.results <= len(thunk.buffers)
        ):
            raise ValueError("a step is of no kernel")
        if isinstance(thunk, HostCallThunk | CollectiveThunk) and not _fits(thunk):
            raise ValueError("a call has other buffers than arrays")
        if isinstance(thunk, CollectiveThunk):
            _check_collective(thunk.collective, program)
    _check_numbers(program)


def _fits(thunk: HostCallThunk | CollectiveThunk) -> bool:
    """Whether each array of a call has a buffer of its size, and a token one of no bytes."""
    called = thunk.call if isinstance(thunk, HostCallThunk) else thunk.collective
    shapes = [*called.operands, *called.results]
    sizes = [x.element_count * DTYPES[x.element_type].itemsize if x.is_array else 0 for x in shapes]
    return [x.nbytes for x in thunk.buffers] == sizes


def _check_collective(collective: DeviceCollective, program: NativeProgram) -> None:
    """Raise ValueError for a device, a place, a kernel or a buffer that there is not."""
    named = sorted([x for group in collective.groups for x in group])
    if named and named != list(range(program.devices)):
        raise ValueError("a device is in no group, or in two")
    least = min(map(len, collective.groups), default=1)
    if not all(0 <= x < least for pair in collective.pairs for x in pair):
        raise ValueError("a place of a group is none")
    count = len(collective.operands) + len(collective.results)
    for step in collective.steps:
        slots = [x.slot for x in step.buffers if x.whose not in NUMBERS]
        if not 0 <= step.kernel < len(program.kernels) or not all(0 <= x < count for x in slots):
            raise ValueError("a step is of no kernel or of no buffer")
        dealt = [x.slot for x in step.buffers if x.whose is Whose.DEALT]
        if not all(x < least for x in dealt):
            raise ValueError("a place of a group is none")


def _check_numbers(program: NativeProgram) -> None:
    counts = [program.threads]
    for kernel in program.kernels:
        counts += [kernel.shared_bytes, kernel.thread_bytes, *[x.units for x in kernel.phases]]
    if any(type(x) is not int or x < 0 for x in counts) or not program.threads:
        raise ValueError("a count is none")
    if not {x for x, _ in program.part_texts} <= kernels_of_bundles(program.thunks):
        raise ValueError("a kernel has no code")


def _slices(program: NativeProgram) -> Iterator[BufferSlice]:
    for result in program.interface.results:
        yield result.place
    for thunk in all_thunks(program.thunks):
        yield from thunk.touches
