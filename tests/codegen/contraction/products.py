"""Running one kernel by itself: no compiler and no runtime around it, units in any order."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from lowtide import parse_hlo
from lowtide.codegen.contraction.dot import plan_dot, plan_fused_dot
from lowtide.codegen.kernel import Plan
from lowtide.evaluator import evaluate, value_leaves
from lowtide.ir import ElementType, Module, Opcode
from lowtide.ir.literal import DTYPES, Array
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import Library, Machine
from lowtide.llvm.target import Target, host_target
from lowtide.testing.tolerances import assert_close

SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
GUARD = 64


class Kernel:
    """A plan as machine code of this process."""

    def __init__(self, plan: Plan, target: Target) -> None:
        self.plan = plan
        code = plan.emit()
        self.text = module_text(code.functions, code.globals)
        self.phases = code.phases
        names = [x.function for x in code.phases]
        self.library = Library([Machine(target).object_code(self.text)], names, target)

    def __call__(self, arrays: Sequence[Array], step: int = 3) -> None:
        """Run on operands, then results; `step` pieces at once, last to first, by two threads."""
        buffers = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])
        nbytes = self.plan.shared_bytes + 2 * self.plan.thread_bytes
        scratch = np.full(nbytes + 2 * GUARD + 64, 0xA5, np.uint8)
        start = GUARD + -(scratch.ctypes.data + GUARD) % 64
        there = scratch[start:].ctypes.data
        for phase in self.phases:
            function = SIGNATURE(self.library[phase.function])
            starts = list(range(0, phase.units, step))
            for number, first in enumerate(reversed(starts)):
                last = min(first + step, phase.units)
                function(ctypes.addressof(buffers), there, first, last, number % 2)
        around = np.concatenate([scratch[:start], scratch[start + nbytes :]])
        assert (around == 0xA5).all(), "a kernel wrote beyond its scratch"


def plan_of(module: Module, target: Target) -> Plan | None:
    """The plan of the root of a module."""
    root = module.entry.root
    plan = plan_fused_dot if root.opcode is Opcode.FUSION else plan_dot
    return plan(root, target)


def inputs_of(module: Module, seed: int = 0) -> list[Array]:
    """Numbers for the parameters: integers over their range, others about 1."""
    rng = np.random.default_rng(seed)
    return [drawn(rng, x.shape.element_type, x.shape.dimensions) for x in module.entry.parameters]


def drawn(rng: np.random.Generator, type_: ElementType, sizes: Sequence[int]) -> Array:
    """An array of random elements of a type."""
    dtype = DTYPES[type_]
    if type_ is ElementType.PRED:
        return np.asarray(rng.random(sizes) < 0.2)
    if type_.is_integer:
        half = 1 << (min(type_.bits, 62) - 1)
        low = -half if type_.is_signed else 0
        return rng.integers(low, low + 2 * half, sizes, dtype=np.int64).astype(dtype)
    if type_.is_complex:
        real, imaginary = rng.standard_normal((2, *sizes))
        return (real + 1j * imaginary).astype(dtype)
    return rng.standard_normal(sizes).astype(dtype)


def misaligned(array: Array) -> Array:
    """A copy at an address that is a multiple of the element size and of nothing more."""
    size = max(1, array.itemsize)
    room = np.zeros(array.nbytes + 64 + size, np.uint8)
    start = -room.ctypes.data % 64 + size
    found = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def check(
    text: str,
    *,
    target: Target | None = None,
    factor: float = 1.0,
    change: Callable[[list[Array]], None] | None = None,
) -> Kernel:
    """Run the root of a module natively and by the evaluator, and compare; return the kernel."""
    module = parse_hlo(text)
    chosen = target or host_target()
    plan = plan_of(module, chosen)
    assert plan is not None
    kernel = Kernel(plan, chosen)
    inputs = inputs_of(module)
    if change is not None:
        change(inputs)
    root = module.entry.root
    wanted = value_leaves(evaluate(module, inputs))
    shapes = [shape for _, shape in root.shape.leaves()]
    results = [np.zeros(x.dimensions, DTYPES[x.element_type]) for x in shapes]
    for x in results:
        x.reshape(-1).view(np.uint8)[...] = 0x5A
    results = [misaligned(x) for x in results]
    given = dict(zip(module.entry.parameters, inputs, strict=True))
    kernel([*[misaligned(given[x]) for x in root.operands], *results])
    for got, expected, shape in zip(results, wanted, shapes, strict=True):
        assert_close(got, expected, shape.element_type, factor=factor)
    return kernel
