"""Running a template of one kernel by itself, with operands and scratch where they hurt most."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from tests.codegen.running import FILL, Kernel, guarded

from lowtide.codegen.kernel import KernelPlan
from lowtide.evaluator import evaluate, value_leaves
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import ElementType, Instruction
from lowtide.ir.literal import DTYPES, Array
from lowtide.llvm.named_targets import NAMED_TARGETS
from lowtide.llvm.target import Target, host_target, restricted

Planner = Callable[[Instruction, Target], "KernelPlan | None"]
Draw = Callable[[int, ElementType, Sequence[int]], Array]


def target_of(name: str) -> Target:
    """The processor of a test: "native" or "avx2", or one by its name that runs nothing here."""
    return NAMED_TARGETS.get(name) or restricted(host_target(), name)


def numbers(seed: int, type_: ElementType, sizes: Sequence[int]) -> Array:
    """Small integers, so that sums in any order are exact."""
    rng = np.random.default_rng(seed)
    if type_ is ElementType.PRED:
        return rng.integers(0, 2, sizes).astype(np.bool_)
    low = 0 if type_.is_integer and not type_.is_signed else -3
    found = rng.integers(low, 4, sizes)
    if type_.is_complex:
        return (found + 1j * rng.integers(-3, 4, sizes)).astype(DTYPES[type_])
    return found.astype(DTYPES[type_])


def check(
    planner: Planner,
    text: str,
    target: str | Target = "native",
    seed: int = 0,
    draw: Draw = numbers,
) -> Kernel:
    """Run the root of a module natively and by the evaluator: results are equal."""
    module = parse_hlo(text)
    root = module.entry.root
    machine = target_of(target) if isinstance(target, str) else target
    plan = planner(root, machine)
    assert plan is not None, "the template is not for it"
    kernel = Kernel(plan, machine)
    parameters = module.entry.parameters
    inputs = [
        draw(seed + i, x.shape.element_type, x.shape.dimensions) for i, x in enumerate(parameters)
    ]
    given = dict(zip(parameters, inputs, strict=True))
    wanted = [x for x in value_leaves(evaluate(module, inputs)) if x is not None]
    results = [guarded(np.full_like(np.asarray(x), 5)) for x in wanted]
    operands = [guarded(given[x])[0] for x in root.operands]
    kernel([*operands, *[x for x, _ in results]], step=1)
    for (got, room), expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(got, expected)
        inside = got.ctypes.data - room.ctypes.data
        around = np.concatenate([room[:inside], room[inside + got.nbytes :]])
        assert (around == FILL).all(), "a kernel wrote beyond its result"
    return kernel
