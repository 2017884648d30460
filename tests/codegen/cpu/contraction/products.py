"""Products run by themselves and by the evaluator, from any addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tests.codegen.running import Kernel

from lowtide import parse_hlo
from lowtide.checking.tolerances import assert_close
from lowtide.codegen.cpu.contraction.dot import plan_dot, plan_fused_dot
from lowtide.codegen.kernel import KernelPlan
from lowtide.evaluator import evaluate, value_leaves
from lowtide.ir import ElementType, Module, Opcode
from lowtide.ir.literal import DTYPES, Array
from lowtide.llvm.target import Target, host_target


def plan_of(module: Module, target: Target) -> KernelPlan | None:
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
