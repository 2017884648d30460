"""The prototype of a loop form beside today's templates: kernels of programs, one by one.

    python -m benchmarks.loop_form_measured [--most-mib N] [--rounds N] FILE ...

Plans each module (HLO text), takes the kernels for which today's templates of loops or reductions
are chosen, and writes, compiles and runs each in both ways, in turn and in one process, on one
thread. Prints a line for each distinct kernel: its family, the microseconds of CPU time that it
takes (least of the rounds), those of writing its text, the milliseconds of LLVM, bytes of machine
code, and how far the results are apart; then sums by family.
"""

from __future__ import annotations

import argparse
import ctypes
import lzma
import time
from collections.abc import Callable, Iterator
from math import exp, log
from pathlib import Path
from typing import Any, Final

import numpy as np
from benchmarks.loop_form.cpu import plan_nests

from lowtide.checking.tolerances import tolerance
from lowtide.codegen.cpu.reduction.template import plan_reduction
from lowtide.codegen.cpu.select import kernel_plan
from lowtide.codegen.elements.operands import leaves, members
from lowtide.codegen.kernel import KernelPlan
from lowtide.codegen.likeness import likeness
from lowtide.codegen.program import NO_CODE
from lowtide.compiler import PlanOptions, plan
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Instruction, Module, Opcode, Shape
from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import DTYPES
from lowtide.llvm.function import module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import Target, host_target
from lowtide.ops.in_place import in_place_pairs
from lowtide.records import dataclass

_SIGNATURE: Final = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
_MOVES: Final = frozenset(
    {Opcode.TRANSPOSE, Opcode.COPY, Opcode.REVERSE, Opcode.CONCATENATE, Opcode.PAD, Opcode.SLICE}
)


@dataclass(eq=False, slots=True)
class Way:
    """A kernel written in one way, and what that took, in seconds of CPU time."""

    plan: KernelPlan
    phases: list[tuple[Any, int]]
    library: Library
    writing: float
    compiling: float
    lines: int
    nbytes: int
    scratch: np.ndarray[Any, Any]

    def run(self, buffers: Any) -> None:
        """Run all pieces of work."""
        there = self.scratch.ctypes.data + -self.scratch.ctypes.data % 64
        for function, units in self.phases:
            function(ctypes.addressof(buffers), there, 0, units, 0)


def written(planned: Callable[[], KernelPlan | None], target: Target) -> Way | None:
    """Return a kernel as it is planned, None where it is not."""
    writing = 1e9
    for _ in range(3):
        start = time.process_time()
        made = planned()
        if made is None:
            return None
        code = made.emit()
        text = module_text(code.functions, code.globals)
        writing = min(writing, time.process_time() - start)
    start = time.process_time()
    data = KernelCompiler(target).object_code(text)
    compiling = time.process_time() - start
    library = Library([data], [x.function for x in code.phases], target)
    phases = [(_SIGNATURE(library[x.function]), x.units) for x in code.phases]
    scratch = np.zeros(made.shared_bytes + made.thread_bytes + 128, np.uint8)
    return Way(made, phases, library, writing, compiling, text.count("\n"), len(data), scratch)


def array_of(shape: Shape, generator: np.random.Generator) -> np.ndarray[Any, Any]:
    """Return numbers of a shape as they lie in memory, from a multiple of 64 bytes on."""
    dtype = np.dtype(DTYPES[shape.element_type])
    count = shape.element_count
    if shape.element_type.is_floating or shape.element_type.is_complex:
        values = generator.uniform(-1, 1, count).astype(dtype)
    else:
        values = generator.integers(0, 2, count).astype(dtype)
    room = np.zeros(values.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64
    found = room[start : start + values.nbytes].view(dtype)
    found[...] = values
    return found


def compared(instruction: Instruction, rounds: int, target: Target) -> dict[str, Any] | None:
    """Return the figures of both ways, None for what nests do not write."""
    old = written(lambda: kernel_plan(instruction, target), target)
    new = written(lambda: plan_nests(instruction, target), target)
    if old is None or new is None:
        return None
    generator = np.random.default_rng(1)
    operands = [array_of(y, generator) for x in instruction.operands for y in leaves(x.shape)]
    shapes = leaves(instruction.shape)
    results = [[array_of(x, generator) for x in shapes] for _ in range(2)]
    buffers = []
    for mine in results:
        pointers = [x.ctypes.data for x in (*operands, *mine)]
        buffers.append((ctypes.c_void_p * len(pointers))(*pointers))
    times: list[list[float]] = [[], []]
    begin = time.process_time()
    for number in range(200):
        for side, way in enumerate((old, new)):
            start = time.process_time_ns()
            way.run(buffers[side])
            times[side].append((time.process_time_ns() - start) / 1e3)
        if number >= rounds and time.process_time() - begin > 0.2:
            break
    far = 0.0
    for shape, a, b in zip(shapes, *results, strict=True):
        x, y = a.astype(np.complex128), b.astype(np.complex128)
        scale = max(np.nanmax(np.abs(x), initial=0.0), 1e-30)
        with np.errstate(all="ignore"):
            apart = np.abs(x - y) / scale
        apart[(x == y) | (np.isnan(x) & np.isnan(y))] = 0
        far = max(far, float(apart.max(initial=0.0)) / (tolerance(shape.element_type) or 1e-30))
    return {
        "time": (min(times[0]), min(times[1])),
        "writing": (old.writing, new.writing),
        "llvm": (old.compiling, new.compiling),
        "bytes": (old.nbytes, new.nbytes),
        "far": far,
    }


def family(instruction: Instruction, target: Target) -> str | None:
    """Return which family of templates writes an instruction today, None for others."""
    chosen = kernel_plan(instruction, target)
    inner = members(instruction)
    if any(x.opcode is Opcode.REDUCE for x in inner):
        is_sum = plan_reduction(instruction, target) is not None
        return "sums" if is_sum and chosen.emit().phases[0].function in _NAMES else None
    if chosen.emit().phases and not chosen.emit().phases[0].function.startswith(("loop", "parts")):
        return None
    return "moves" if any(x.opcode in _MOVES for x in inner) else "points"


_NAMES: Final = ("rows", "columns")


def kernels_of(module: Module) -> Iterator[Instruction]:
    """Yield the instructions of a planned module that kernels run."""
    for computation in module.computations.values():
        if computation in _bodies(module):
            continue
        yield from computation.instructions.values()


def _bodies(module: Module) -> set[Any]:
    found: set[Any] = set()
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode not in (Opcode.WHILE, Opcode.CONDITIONAL, Opcode.CALL):
                found.update(x.called_computations)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--most-mib", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    target = host_target()
    seen: set[Any] = set()
    rows: list[tuple[str, dict[str, Any]]] = []
    for path in given.files:
        data = path.read_bytes()
        text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode()
        planned = plan(parse_hlo(text), PlanOptions(target=CPU_TARGET)).module
        for x in kernels_of(planned):
            if x.opcode in NO_CODE or in_place_pairs(x) or likeness(x) in seen:
                continue
            shapes = [z for y in (x, *x.operands) for z in leaves(y.shape)]
            nbytes = sum([z.nbytes for z in shapes])
            if nbytes > given.most_mib << 20 or (not x.shape.is_array and not leaves(x.shape)):
                continue
            seen.add(likeness(x))
            try:
                kind = family(x, target)
            except LowtideError:
                continue
            if kind is None:
                continue
            figures = compared(x, given.rounds, target)
            if figures is None:
                print(f"{'none':7} {kind:7} {x.name} {x.shape}", flush=True)
                continue
            rows.append((kind, figures))
            old, new = figures["time"]
            print(
                f"{new / old:7.2f} {kind:7} {old:9.1f} {new:9.1f} us  far {figures['far']:8.2g}  "
                f"{path.parent.name[:12]} {x.name[:34]:34} {str(x.shape)[:60]}",
                flush=True,
            )
    for kind in ("points", "moves", "sums"):
        mine = [y for x, y in rows if x == kind]
        if not mine:
            continue
        print(f"\n{kind}: {len(mine)} kernels")
        for name in ("time", "writing", "llvm", "bytes"):
            pairs = [x[name] for x in mine]
            old, new = (sum([x[i] for x in pairs]) for i in range(2))
            mean = exp(sum([log(b / a) for a, b in pairs]) / len(pairs))
            print(f"  {name:8} {old:12.4g} {new:12.4g}  of all {new / old:.3f}  mean {mean:.3f}")


if __name__ == "__main__":
    main()
