"""Native functions of what the threads of an emulated device do together, which kernels call.

A thread that waits for others hands over to the scheduler (`blocks.py`), with what it passes to
them in the words of its lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from lowtide.codegen.emulated.calls import Wait
from lowtide.emulator.native_watch import WatchedFault, gpu_fault
from lowtide.emulator.state import STATE, LaneWords, Memory, ThreadSums
from lowtide.native import (
    I32,
    Address,
    BF16PairBits,
    F32Bits,
    NativeRecord,
    address_of,
    at,
    external,
    native,
    the,
)

KernelEntry: TypeAlias = Callable[[], None]


@external
def swapcontext(save: Address, then: Address) -> I32:
    """Keep where the thread is, and go on where another one was."""
    raise NotImplementedError


@native
def gpu_state_address() -> Address:
    """Return where the state lies."""
    return address_of(the(STATE))


@native
def gpu_arguments() -> Memory:
    """Return where the addresses lie that the kernel takes."""
    return the(STATE).arguments


@native
def gpu_thread() -> I32:
    """Return the number of the running thread in its block."""
    return the(STATE).thread


@native
def gpu_block() -> I32:
    """Return the number of the running block."""
    return the(STATE).block


@native
def gpu_run(kernel: KernelEntry, blocks: int, threads: int) -> None:
    """Run all threads of all blocks, one after the other: none of them waits."""
    state = the(STATE)
    for block in range(blocks):
        state.block = block
        for thread in range(threads):
            state.thread = thread
            kernel()


# -- waiting -------------------------------------------------------------------------------------


@native
def gpu_wait(kind: int) -> None:
    """Let others run until what the thread waits for has come."""
    state = the(STATE)
    state.waits_for = kind
    swapcontext(state.fiber, state.scheduler)


@native
def gpu_barrier(number: I32) -> None:
    """Wait for all threads of the block."""
    gpu_wait(Wait.BARRIER)


@native
def gpu_lane() -> LaneWords:
    """Return the words that the thread's warp exchanges."""
    state = the(STATE)
    return state.lanes[state.thread]


@native
def gpu_exchange(mask: I32, value: I32, distance: I32, last: I32) -> I32:
    """Return the value of the thread whose number differs by the bits of `distance`."""
    lane = gpu_lane()
    lane.words[0] = value
    lane.words[1] = distance
    gpu_wait(Wait.EXCHANGE)
    return lane.words[0]


@native
def gpu_warp_barrier(mask: I32) -> None:
    """Wait for all threads of the warp."""
    gpu_exchange(mask, 0, 0, 31)


# -- shared memory -------------------------------------------------------------------------------


@native
def gpu_note(place: Memory, nbytes: int, is_write: int, align: int) -> None:
    """Note an access to shared memory, and a fault where its address is no multiple of `align`."""
    address = address_of(place)
    if address & (align - 1):
        gpu_fault(WatchedFault.MISALIGNED, address, align)
    gpu_log(address, 2 * nbytes | is_write)


@native
def gpu_log(address: Address, what: int) -> None:
    """Add to the log of accesses to shared memory."""
    state = the(STATE)
    if state.logged < state.capacity:
        entry = state.log[state.logged]
        entry.address = address
        entry.what = state.thread << 16 | what
    state.logged += 1


# -- warpgroups ----------------------------------------------------------------------------------


class WarpgroupWords(NativeRecord):
    """What a thread hands to its warpgroup: a `WarpgroupCall`, two values, and how many sums."""

    what: int
    a: int
    b: int
    count: int


@native
def gpu_sums() -> ThreadSums:
    """Return the sums that the thread hands to its warpgroup."""
    state = the(STATE)
    return state.sums[state.thread]


@native
def gpu_warpgroup(what: int, a: int, b: int, count: int) -> ThreadSums:
    """Have the warpgroup do something; return what has become of the thread's sums."""
    given = at(WarpgroupWords, gpu_lane())
    given.what = what
    given.a = a
    given.b = b
    given.count = count
    gpu_wait(Wait.WARPGROUP)
    return gpu_sums()


@native
def gpu_proxy_fence() -> None:
    """Show what the thread wrote to products of warpgroups: an access without bytes."""
    gpu_log(0, 0)


@native
def _bfloat(bits: int) -> int:
    """Round an f32 to the nearest bf16, of two the even one; NaN is the one NaN of a device."""
    if bits & 0x7FFFFFFF > 0x7F800000:
        return 0x7FFF
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16


@native
def gpu_bfloats(upper: F32Bits, lower: F32Bits) -> BF16PairBits:
    """Round two numbers to bf16."""
    return _bfloat(upper) << 16 | _bfloat(lower)
