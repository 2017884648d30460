"""Races, misaligned accesses and unwritten reads, planted into kernels: each is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.gpu.programs import check, program_of, text_of
from tests.codegen.gpu.test_templates import BITS, POINTS
from tests.runtime.gpu.test_races import dot, log, row

from lowtide.cli.inputs import generated
from lowtide.emulator.device import on_emulated_device
from lowtide.emulator.races import unwritten_in
from lowtide.emulator.shadow import EmulationError
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo

Plant = Callable[[str], str]

_ROWS = "\n".join(
    [
        "  x = f32[200,64] parameter(0)",
        "  z = f32[] constant(0)",
        "  ROOT s = f32[200] reduce(x, z), dimensions={1}, to_apply=add",
        "",
    ]
)


def register(name: str, change: str) -> Plant:
    """Return a plant that changes what a thread reads from a register of its place."""

    def plant(text: str) -> str:
        return re.sub(
            rf"^  (%\S+) = call i32 @llvm\.nvvm\.read\.ptx\.sreg\.{name}\.x\(\)$",
            lambda x: f"  %planted = {x[0].split(' = ')[1]}\n  {x[1]} = {change}",
            text,
            flags=re.MULTILINE,
        )

    return plant


def moved(pattern: str, space: str, nbytes: int) -> Plant:
    """Return a plant that moves the address of the first access that a pattern matches."""

    def plant(text: str) -> str:
        spot = rf"^  .*{pattern}.*, ptr{re.escape(space)} (%\S+), align \d+$"
        found = re.search(spot, text, re.MULTILINE)
        assert found is not None
        lines = (
            f"  %planted = getelementptr i8, ptr{space} {found[1]}, i64 {nbytes}\n"
            f"{found[0].replace(f'ptr{space} {found[1]},', f'ptr{space} %planted,')}"
        )
        return text.replace(found[0], lines, 1)

    return plant


def without_store(number: int) -> Plant:
    """Return a plant that leaves out a store to shared memory."""

    def plant(text: str) -> str:
        found = list(re.finditer(r"^  store .*addrspace\(3\).*\n", text, re.MULTILINE))[number]
        return text[: found.start()] + text[found.end() :]

    return plant


SHARED = " addrspace(3)"
BETWEEN = r"have a race in global memory: byte \d+ of an allocation"
CROOKED = "a misaligned address"
UNWRITTEN = "of shared memory, which no thread of the block has written"

PLANTED: dict[str, tuple[str, Plant, str]] = {
    "blocks, points": (POINTS["elementwise"], register("ctaid", "lshr i32 %planted, 1"), BETWEEN),
    "blocks, lanes": (POINTS["four lanes"], register("ctaid", "and i32 %planted, 63"), BETWEEN),
    "blocks, bf16": (POINTS["lanes of bf16"], register("ctaid", "lshr i32 %planted, 1"), BETWEEN),
    "blocks, rows": (row(3000, 1), register("ctaid", "lshr i32 %planted, 1"), BETWEEN),
    "blocks, product": (dot("f32", 130, 70, 20), register("ctaid", "and i32 %planted, 1"), BETWEEN),
    "blocks, mma": (dot("bf16", 130, 70, 16), register("ctaid", "and i32 %planted, 3"), BETWEEN),
    "threads, points": (POINTS["elementwise"], register("tid", "and i32 %planted, -2"), BETWEEN),
    "threads, gather": (POINTS["gather"], register("tid", "lshr i32 %planted, 1"), BETWEEN),
    "threads, units": (BITS, register("tid", "and i32 %planted, -4"), BETWEEN),
    "warps, rows": (_ROWS, register("tid", "and i32 %planted, 31"), BETWEEN),
    "misaligned load": (POINTS["four lanes"], moved("= load <4 x i32>", "", 4), CROOKED),
    "misaligned store": (POINTS["four lanes"], moved("store <4 x float>", "", 4), CROOKED),
    "misaligned number": (POINTS["elementwise"], moved("= load float", "", 2), CROOKED),
    "misaligned double": (POINTS["wide numbers"], moved("store <2 x double>", "", 8), CROOKED),
    "misaligned in shared": (
        dot("f32", 40, 40, 70),
        moved("= load <4 x float>", SHARED, 4),
        CROOKED,
    ),
    "unwritten, first tile": (dot("f32", 40, 40, 70), without_store(0), UNWRITTEN),
    "unwritten, second tile": (dot("f32", 40, 40, 70), without_store(-1), UNWRITTEN),
    "unwritten, mma": (dot("bf16", 64, 64, 96), without_store(3), UNWRITTEN),
    "unwritten, mma, last": (dot("f16", 70, 50, 66, "f32"), without_store(-1), UNWRITTEN),
    "unwritten, sums": (row(3000, 1), without_store(0), UNWRITTEN),
    "unwritten, second sums": (row(3000, 2), without_store(1), UNWRITTEN),
}
"""A program of one kernel, what is planted, and what is said."""


def test_there_are_twenty() -> None:
    assert len(PLANTED) >= 20


@pytest.mark.parametrize("name", PLANTED)
def test_what_is_planted_is_found(name: str) -> None:
    entry, plant, said = PLANTED[name]
    program = program_of(entry)
    changed = tuple([plant(x) for x in program.texts])
    assert changed != program.texts
    planted = replace(program, texts=changed)
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(entry)))), 0)
    with pytest.raises(EmulationError, match=said):
        on_emulated_device(planted)(*arguments)


@pytest.mark.parametrize("name", ["elementwise", "four lanes", "columns", "update in place"])
def test_without_a_plant_nothing_is_found(name: str) -> None:
    check(POINTS[name])


def test_an_access_beyond_what_is_allocated() -> None:
    """A load far behind the array is told and not done."""
    program = program_of(POINTS["elementwise"])
    texts = tuple([moved("= load float", "", 1 << 40)(x) for x in program.texts])
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(POINTS["elementwise"])))), 0)
    with pytest.raises(EmulationError, match="accesses 4 bytes where not all are allocated"):
        on_emulated_device(replace(program, texts=texts))(*arguments)


def test_reads_of_what_was_written() -> None:
    none = np.zeros(0, np.uint64)
    found, written = unwritten_in(log((96, 0, 4, True), (96, 0, 4, False)), none)
    assert found is None and written.tolist() == [96, 97, 98, 99]
    found, _ = unwritten_in(log((98, 5, 2, False)), written)
    assert found is None
    found, _ = unwritten_in(log((98, 5, 4, False)), written)
    assert found is not None and (found.place, found.thread) == (2, 5)
    found, _ = unwritten_in(log((96, 0, 4, False), (96, 0, 4, True)), none)
    assert found is not None and found.thread == 0
    assert unwritten_in(log(), written) == (None, written)
