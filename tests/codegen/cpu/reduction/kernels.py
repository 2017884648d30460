"""Running the kernel of a root by itself, and whole programs with the kernels that they have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.codegen.running import GUARD, Kernel

from lowtide.backends.build import build
from lowtide.backends.cpu import CpuBackend
from lowtide.checking.tolerances import assert_close
from lowtide.codegen.kernel import KernelPlan
from lowtide.evaluator import Token, evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Instruction, Shape
from lowtide.ir.literal import DTYPES, Array
from lowtide.llvm.target import Target, host_target, restricted
from lowtide.runtime.cpu.call import LinkedExecutable

TARGETS = ("native", "avx2")


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


def run(kernel: Kernel, root: Instruction, inputs: Sequence[Array], step: int) -> list[Array]:
    """Return the results of the kernel of a root, `step` pieces at once."""
    made = [guarded(x) for x in leaves(root.shape)]
    kernel([*inputs, *[x for _, x in made]], step)
    for whole, _ in made:
        assert (whole[:GUARD] == 0x5A).all() and (whole[-GUARD:] == 0x5A).all()
    return [x for _, x in made]


def check_kernel(
    text: str,
    inputs: Sequence[Array],
    plan: Callable[[Instruction, Target], KernelPlan | None],
    target: str = "native",
) -> Kernel:
    """Compare the kernel of the root with the evaluator; pieces in any order give equal bytes."""
    module = parse_hlo(text)
    root = module.entry.root
    assert all(x is y for x, y in zip(root.operands, module.entry.parameters, strict=True))
    found = plan(root, target_of(target))
    assert found is not None
    kernel = Kernel(found, target_of(target))
    with np.errstate(all="ignore"):
        wanted = [x for x in value_leaves(evaluate(module, inputs)) if not isinstance(x, Token)]
    first, second = run(kernel, root, inputs, 3), run(kernel, root, inputs, 1000)
    for got, again, want, shape in zip(first, second, wanted, leaves(root.shape), strict=True):
        assert got.tobytes() == again.tobytes()
        assert_close(got, want, shape.element_type)
    return kernel


def check_program(
    text: str, inputs: Sequence[Array], kernels: Sequence[str], target: str = "native"
) -> None:
    """Compare a program with the evaluator's results; it has kernels with such functions."""
    module = parse_hlo(text)
    program = build(module, CpuBackend(2, target_of(target))).program
    names = [phase.function.split(".")[0] for x in program.kernels for phase in x.phases]
    assert set(kernels) <= set(names), names
    result: Any = LinkedExecutable(program)(*inputs)
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
