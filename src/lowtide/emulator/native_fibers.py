"""Native functions that run the threads of a block in turn, each on a stack of its own."""

from __future__ import annotations

from typing import Final

from lowtide.codegen.emulated.calls import Wait
from lowtide.codegen.emulated.products import WARP
from lowtide.emulator.native_threads import swapcontext
from lowtide.emulator.state import STATE
from lowtide.native import (
    I32,
    Address,
    NativeItems,
    NativeRecord,
    at,
    external,
    inline,
    native,
    the,
)

STACK_BYTES: Final = 1 << 16
CONTEXT_BYTES: Final = 8192
"""Bytes of a `ucontext_t`, with room to spare."""

RUNNABLE: Final = -1
"""What a thread waits for that can go on: nothing."""

_EXCHANGES: Final = 1 << 12
"""Exchanges in turn without the host, so that a kernel that exchanges for ever can be ended."""

_KEPT: Final = 2
"""The word of a lane that keeps what it gives while others are given theirs."""


class Context(NativeRecord):
    """The beginning of a `ucontext_t`: the context that follows, and the stack."""

    flags: int
    link: Address
    stack: Address
    stack_flags: int
    stack_bytes: int
    rest: NativeItems[int] = inline(CONTEXT_BYTES // 8 - 5)


@external
def getcontext(context: Address) -> I32:
    """Fill a context in."""
    raise NotImplementedError


@external
def makecontext(context: Address, function: Address, count: I32) -> None:
    """Have a context begin with a function of `count` arguments."""
    raise NotImplementedError


@native
def gpu_begin(contexts: Address, stacks: Address, kernel: Address, threads: int) -> None:
    """Have all threads of a block begin with a function."""
    for thread in range(threads):
        place = contexts + thread * CONTEXT_BYTES
        getcontext(place)
        context = at(Context, place)
        context.link = the(STATE).scheduler
        context.stack = stacks + thread * STACK_BYTES
        context.stack_bytes = STACK_BYTES
        makecontext(place, kernel, 0)


@native
def gpu_run_runnable(contexts: Address, threads: int, waits: NativeItems[int]) -> None:
    """Run each thread that can go on until it waits or ends, and note what it waits for."""
    state = the(STATE)
    for thread in range(threads):
        if waits[thread] == RUNNABLE:
            state.thread = thread
            state.waits_for = Wait.ENDED
            state.fiber = contexts + thread * CONTEXT_BYTES
            swapcontext(state.scheduler, state.fiber)
            waits[thread] = state.waits_for


@native
def gpu_is_together(waits: NativeItems[int], first: int) -> bool:
    """Return whether all threads of a whole warp wait for the same."""
    different = 0
    for lane in range(1, WARP):
        different |= waits[first + lane] ^ waits[first]
    return different == 0


@native
def gpu_can_exchange(first: int) -> bool:
    """Return whether all threads of a warp ask for the value of one of them."""
    distances = 0
    for lane in range(WARP):
        distances |= the(STATE).lanes[first + lane].words[1]
    return distances & -WARP == 0


@native
def gpu_exchange_values(first: int) -> None:
    """Do what `warp.exchange` does."""
    lanes = the(STATE).lanes
    for lane in range(WARP):
        words = lanes[first + lane].words
        words[_KEPT] = words[0]
    for lane in range(WARP):
        words = lanes[first + lane].words
        words[0] = lanes[first + (lane ^ words[1])].words[_KEPT]


@native
def gpu_exchange_all(threads: int, waits: NativeItems[int]) -> bool:
    """Have warps exchange values if no warp waits for more than that; return whether any did."""
    if threads % WARP:
        return False
    found = False
    for warp in range(threads // WARP):
        first = warp * WARP
        if waits[first] > Wait.BARRIER and gpu_is_together(waits, first):
            if waits[first] != Wait.EXCHANGE or not gpu_can_exchange(first):
                return False
            found = True
    for warp in range(threads // WARP):
        first = warp * WARP
        if waits[first] == Wait.EXCHANGE and gpu_is_together(waits, first):
            gpu_exchange_values(first)
            the(STATE).in_step[warp] = the(STATE).passed + 1
            for lane in range(WARP):
                waits[first + lane] = RUNNABLE
    return found


@native
def gpu_resume(contexts: Address, threads: int, waits: NativeItems[int]) -> None:
    """Run the threads of a block until they wait for more than values of their warps.

    After so many exchanges the host has its turn, which sees to signals and does the next one.
    """
    gpu_run_runnable(contexts, threads, waits)
    for _ in range(_EXCHANGES):
        if not gpu_exchange_all(threads, waits):
            return
        the(STATE).passed += 1
        gpu_run_runnable(contexts, threads, waits)
