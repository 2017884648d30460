"""Running the kernel of a root by itself, and whole programs with the kernels that they have."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowtide import native
from lowtide.codegen.kernel import Plan
from lowtide.evaluator import Token, evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Instruction, Shape
from lowtide.ir.literal import DTYPES, Array
from lowtide.llvm.function import module_text
from lowtide.llvm.machine import Library, Machine
from lowtide.llvm.target import Target, host_target, restricted
from lowtide.runtime.call import Executable
from lowtide.testing.tolerances import assert_close

TARGETS = ("native", "avx2")
SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
GUARD = 64


def target_of(name: str) -> Target:
    return restricted(host_target(), name)


def leaves(shape: Shape) -> list[Shape]:
    return [x for _, x in shape.leaves() if x.is_array]


def guarded(shape: Shape) -> tuple[Array, Array]:
    """An array of garbage in the midst of more garbage."""
    dtype = np.dtype(DTYPES[shape.element_type])
    count = shape.element_count
    whole = np.full(count * dtype.itemsize + 2 * GUARD, 0x5A, np.uint8)
    return whole, whole[GUARD : GUARD + count * dtype.itemsize].view(dtype).reshape(
        shape.dimensions
    )


class Kernel:
    """A plan as machine code of this process."""

    def __init__(self, plan: Plan, root: Instruction, target: Target) -> None:
        self.plan = plan
        self.root = root
        code = plan.emit()
        self.text = module_text(code.functions, code.globals)
        self.phases = code.phases
        names = [x.function for x in code.phases]
        self.library = Library([Machine(target).object_code(self.text)], names, target)

    def __call__(self, inputs: Sequence[Array], step: int) -> list[Array]:
        """The results; `step` pieces at once, last to first, by two threads in turn."""
        made = [guarded(x) for x in leaves(self.root.shape)]
        arrays = [*inputs, *[x for _, x in made]]
        buffers = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])
        nbytes = self.plan.shared_bytes + 2 * self.plan.thread_bytes
        scratch = np.full(nbytes + 2 * GUARD + 64, 0xA5, np.uint8)
        start = GUARD + -(scratch.ctypes.data + GUARD) % 64
        there = scratch[start:].ctypes.data
        for phase in self.phases:
            function = SIGNATURE(self.library[phase.function])
            for number, first in enumerate(reversed(range(0, phase.units, step))):
                last = min(first + step, phase.units)
                function(ctypes.addressof(buffers), there, first, last, number % 2)
        around = np.concatenate([scratch[:start], scratch[start + nbytes :]])
        assert (around == 0xA5).all(), "a kernel wrote beyond its scratch"
        for whole, _ in made:
            assert (whole[:GUARD] == 0x5A).all() and (whole[-GUARD:] == 0x5A).all()
        return [x for _, x in made]


def check_kernel(
    text: str,
    inputs: Sequence[Array],
    plan: Callable[[Instruction, Target], Plan | None],
    target: str = "native",
) -> Kernel:
    """Compare the kernel of the root with the evaluator; pieces in any order give equal bytes."""
    module = parse_hlo(text)
    root = module.entry.root
    assert all(x is y for x, y in zip(root.operands, module.entry.parameters, strict=True))
    found = plan(root, target_of(target))
    assert found is not None
    kernel = Kernel(found, root, target_of(target))
    with np.errstate(all="ignore"):
        wanted = [x for x in value_leaves(evaluate(module, inputs)) if not isinstance(x, Token)]
    first, second = kernel(inputs, 3), kernel(inputs, 1000)
    for got, again, want, shape in zip(first, second, wanted, leaves(root.shape), strict=True):
        assert got.tobytes() == again.tobytes()
        assert_close(got, want, shape.element_type)
    return kernel


def check_program(
    text: str, inputs: Sequence[Array], kernels: Sequence[str], target: str = "native"
) -> None:
    """Compare a program with the evaluator's results; it has kernels with such functions."""
    module = parse_hlo(text)
    program = native.compile_module(module, threads=2, target=target_of(target)).program
    names = [phase.function.split(".")[0] for x in program.kernels for phase in x.phases]
    assert set(kernels) <= set(names), names
    result: Any = Executable(program)(*inputs)
    got = [np.asarray(x) for x in value_leaves(result) if not isinstance(x, Token)]
    with np.errstate(all="ignore"):
        wanted = [x for x in value_leaves(evaluate(module, inputs)) if not isinstance(x, Token)]
    for a, b, shape in zip(got, wanted, leaves(module.entry.root.shape), strict=True):
        assert_close(a, b, shape.element_type)


def random(rng: np.random.Generator, shape: Sequence[int], type_: ElementType) -> Array:
    """Numbers of all signs, few enough of them that integers and products do not overflow."""
    dtype = DTYPES[type_]
    if type_ is ElementType.PRED:
        return np.asarray(rng.integers(0, 2, shape), bool)
    if type_.is_complex:
        return np.asarray(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), dtype)
    if type_.is_floating:
        return np.asarray(rng.standard_normal(shape)).astype(dtype)
    return np.asarray(rng.integers(-8 if type_.is_signed else 0, 8, shape)).astype(dtype)
