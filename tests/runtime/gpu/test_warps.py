"""Threads of a warp that wait for each other: what that orders, and exchanges without an end."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.codegen.gpu.programs import flat, program_of

from lowtide.emulator.blocks import Fibers
from lowtide.emulator.device import on_emulated_device
from lowtide.emulator.shadow import EmulationError
from lowtide.runtime.gpu.program import GpuProgram

WAIT = "  call void @llvm.nvvm.bar.warp.sync(i32 -1)\n"
BARRIER = "  call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)\n"

SWAPPED = """entry:
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %other = xor i32 %thread, 1
  %from = getelementptr float, ptr %a0, i32 %thread
  %mine = getelementptr float, ptr %a1, i32 %thread
  %theirs = getelementptr float, ptr %a1, i32 %other
  %x = load float, ptr %from, align 4
  store float %x, ptr %mine, align 4
{first}  %y = load float, ptr %theirs, align 4
{second}  store float %y, ptr %mine, align 4
  ret void
"""
"""A thread stores a number where its neighbour reads it, and then what it has read there."""

ACROSS = """entry:
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %other = xor i32 %thread, 32
  %mine = getelementptr float, ptr %a1, i32 %thread
  %theirs = getelementptr float, ptr %a1, i32 %other
  {first}
{wait}  {second}
  ret void
"""
STORE = "store float 1.0, ptr %mine, align 4"
LOAD = "%y = load float, ptr %theirs, align 4"
"""A thread stores a number that one of another warp reads."""

ENDLESS = """entry:
  br label %loop
loop:
  %x = call i32 @llvm.nvvm.shfl.sync.bfly.i32(i32 -1, i32 0, i32 1, i32 31)
  br label %loop
"""

DECLARED = """declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
declare i32 @llvm.nvvm.shfl.sync.bfly.i32(i32, i32, i32, i32)
declare void @llvm.nvvm.bar.warp.sync(i32)
declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)
"""


def of_one_block(body: str, threads: int = 32) -> GpuProgram:
    """Return a program of one kernel, from 64 numbers to as many, with a body of its own."""
    program = program_of("  x = f32[64] parameter(0)\n  ROOT y = f32[64] negate(x)\n")
    (kernel,) = program.kernels
    (launch,) = kernel.launches
    head = re.search(r"^define ptx_kernel .*\{\n", program.texts[0], re.MULTILINE)
    assert head is not None
    one_block = replace(kernel, launches=(replace(launch, blocks=1, threads=threads),))
    return replace(program, texts=(f"{DECLARED}{head[0]}{body}}}\n",), kernels=(one_block,))


def numbers() -> Any:
    return np.arange(64, dtype=np.float32)


@pytest.mark.parametrize("threads", [32, 16])
def test_what_comes_after_a_wait_of_the_warp_races_with_nothing_before_it(threads: int) -> None:
    program = of_one_block(SWAPPED.format(first=WAIT, second=WAIT), threads)
    (found,) = flat(on_emulated_device(program)(numbers()))
    swapped = numbers().reshape(32, 2)[:, ::-1].reshape(64)
    assert np.array_equal(found[:threads], swapped[:threads])


@pytest.mark.parametrize(("first", "second"), [("", WAIT), (WAIT, "")])
def test_a_missing_wait_of_the_warp_is_a_race(first: str, second: str) -> None:
    program = of_one_block(SWAPPED.format(first=first, second=second))
    with pytest.raises(EmulationError, match="have a race in global memory"):
        on_emulated_device(program)(numbers())


@pytest.mark.parametrize(("first", "second"), [(STORE, LOAD), (LOAD, STORE)])
def test_waits_of_warps_order_nothing_between_them(first: str, second: str) -> None:
    def program(wait: str) -> GpuProgram:
        return of_one_block(ACROSS.format(first=first, wait=wait, second=second), 64)

    with pytest.raises(EmulationError, match="have a race in global memory"):
        on_emulated_device(program(WAIT))(numbers())
    on_emulated_device(program(BARRIER))(numbers())


def test_exchanges_without_an_end_are_ended_by_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = []
    released = Fibers._released

    def noted(self: Fibers, name: str, waits: Any) -> list[int]:
        turns.append(name)
        if len(turns) == 3:
            signal.raise_signal(signal.SIGINT)
        return released(self, name, waits)

    monkeypatch.setattr(Fibers, "_released", noted)
    with pytest.raises(KeyboardInterrupt):
        on_emulated_device(of_one_block(ENDLESS))(numbers())
    assert len(turns) == 3
