"""Races in shared memory, planted by taking out one barrier of a kernel: each is found."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from tests.codegen.gpu.programs import program_of, text_of

from lowtide.cli.inputs import generated
from lowtide.emulator.device import on_emulated_device
from lowtide.emulator.races import race_in
from lowtide.emulator.shadow import EmulationError
from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_text import parse_hlo

BARRIER = re.compile(r"^  call void @llvm\.nvvm\.barrier.*\n", re.MULTILINE)


def dot(type_: str, rows: int, columns: int, depth: int, result: str = "") -> str:
    return (
        f"  x = {type_}[{rows},{depth}] parameter(0)\n"
        f"  y = {type_}[{depth},{columns}] parameter(1)\n"
        f"  ROOT z = {result or type_}[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={0}\n"
    )


def row(length: int, sums: int) -> str:
    """A row from which its sum is taken, again and again."""
    lines = [f"  x0 = f32[2,{length}] parameter(0)", "  z = f32[] constant(0)"]
    for i in range(sums):
        root = "ROOT " if i == sums - 1 else ""
        lines += [
            f"  y{i} = f32[2,{length}] multiply(x{i}, x{i})",
            f"  s{i}q = f32[2] reduce(y{i}, z), dimensions={{1}}, to_apply=add",
            f"  b{i} = f32[2,{length}] broadcast(s{i}q), dimensions={{0}}",
            f"  {root}x{i + 1} = f32[2,{length}] subtract(y{i}, b{i})",
        ]
    return "\n".join([*lines, ""])


PLANTED = {
    "f32": (dot("f32", 40, 40, 70), 2),
    "f32 with ends": (dot("f32", 67, 33, 41), 2),
    "f32, large tiles": (dot("f32", 1600, 1441, 24), 2),
    "f64": (dot("f64", 40, 40, 70), 2),
    "s32": (dot("s32", 40, 40, 70), 2),
    "bf16": (dot("bf16", 64, 64, 96), 2),
    "f16": (dot("f16", 70, 50, 66, "f32"), 2),
    "one sum": (row(3072, 1), 1),
    "two sums": (row(3072, 2), 2),
    "three sums": (row(3072, 3), 3),
}
"""Programs of one kernel, and how many barriers it has: 20 in all."""


def test_there_are_twenty() -> None:
    assert sum([count for _, count in PLANTED.values()]) == 20


@pytest.mark.parametrize(
    ("name", "number"), [(name, i) for name, (_, count) in PLANTED.items() for i in range(count)]
)
def test_a_missing_barrier_is_found(name: str, number: int) -> None:
    entry, count = PLANTED[name]
    program = program_of(entry)
    (text,) = [x for x in program.texts if BARRIER.search(x)]
    places = list(BARRIER.finditer(text))
    assert len(places) == count
    there = places[number]
    wrong = text[: there.start()] + text[there.end() :]
    planted = replace(program, texts=tuple([wrong if x is text else x for x in program.texts]))
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(entry)))), 0)
    with pytest.raises(EmulationError, match="a race in shared memory: threads"):
        on_emulated_device(planted)(*arguments)


def log(*accesses: tuple[int, int, int, bool]) -> np.ndarray:
    rows = [(at, thread << 16 | nbytes << 1 | wrote) for at, thread, nbytes, wrote in accesses]
    return np.array(rows, np.uint64).reshape(-1, 2)


def test_races_are_between_threads_at_one_byte_that_is_written() -> None:
    assert race_in(log()) is None
    assert race_in(log((96, 0, 4, True), (96, 0, 4, False), (100, 1, 4, True))) is None
    assert race_in(log((96, 0, 4, False), (96, 1, 4, False))) is None
    found = race_in(log((96, 0, 4, True), (80, 5, 16, False), (98, 7, 1, False)))
    assert found is not None
    assert (found.place, found.first, found.second) == (18, 0, 7)
    assert race_in(log((96, 3, 4, True), (96, 1, 4, True))) is not None


def test_threads_that_wait_for_different_things_are_an_error() -> None:
    """A barrier that only the first threads of a block come to."""
    program = program_of(row(3000, 1))
    (text,) = [x for x in program.texts if BARRIER.search(x)]
    place = BARRIER.search(text)
    assert place is not None
    name = re.findall(r"(%\S+) = icmp ult i64 %\S+, 8\n", text)[0]
    wrong = (
        f"{text[: place.start()]}  br i1 {name}, label %wait, label %on\nwait:\n{place[0]}"
        f"  br label %on\non:\n{text[place.end() :]}"
    )
    wrong = _with_block(wrong, text, place.start())
    planted = replace(program, texts=(wrong,))
    arguments = generated(list(parameter_leaves(parse_hlo(text_of(row(3000, 1))))), 0)
    with pytest.raises(EmulationError, match=r"wait for different things|a race"):
        on_emulated_device(planted)(*arguments)


def _with_block(wrong: str, text: str, place: int) -> str:
    """Name the new block where later ones say which block they come from."""
    before = re.findall(r"^([\w.]+):", text[:place], re.MULTILINE)[-1]
    head, tail = wrong[: wrong.index("on:\n")], wrong[wrong.index("on:\n") :]
    return head + tail.replace(f"%{before} ]", "%on ]")
