"""Reducers whose results depend on the order of what they combine: any order is right for them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from lowtide.checking.tolerances import worst_difference
from lowtide.evaluator import Interpreter
from lowtide.evaluator.reducers import as_ufunc
from lowtide.evaluator.reduction import apply
from lowtide.ir import Computation, Instruction, Opcode, Shape
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array

FOLDS: Final = frozenset(
    {
        Opcode.ALL_REDUCE,
        Opcode.ALL_REDUCE_START,
        Opcode.REDUCE,
        Opcode.REDUCE_SCATTER,
        Opcode.REDUCE_WINDOW,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
    }
)
"""Operations whose last computation combines elements, in an order that HLO leaves open."""

SAMPLES: Final = 64
FACTOR: Final = 64.0
"""By how much two orders may differ more than one operation does."""


def depends_on_order(interpreter: Interpreter, instruction: Instruction) -> bool:
    """Return whether an instruction, or one that it calls, combines elements without an order."""
    stack, seen = [instruction], set[Computation]()
    while stack:
        x = stack.pop()
        if x.opcode in FOLDS and not _is_associative(interpreter, x.called_computations[-1]):
            return True
        for computation in x.called_computations:
            if computation not in seen:
                seen.add(computation)
                stack += computation.instructions.values()
    return False


def _is_associative(interpreter: Interpreter, computation: Computation) -> bool:
    """Whether (a b) c is a (b c), for some numbers; also where that cannot be found out."""
    shapes = [x.shape for x in computation.parameters]
    if as_ufunc(computation) is not None or not all(x.is_array and not x.rank for x in shapes):
        return True
    random = np.random.default_rng(0)
    count = len(shapes) // 2
    a, b, c = ([_sample(random, x) for x in shapes[:count]] for _ in range(3))
    try:
        left = apply(interpreter, computation, [*apply(interpreter, computation, [*a, *b]), *c])
        right = apply(interpreter, computation, [*a, *apply(interpreter, computation, [*b, *c])])
    except UnsupportedOpError:
        return True
    return all(
        worst_difference(x, y, shape.element_type, factor=FACTOR) is None
        for x, y, shape in zip(left, right, shapes, strict=False)
    )


def _sample(random: np.random.Generator, shape: Shape) -> Array:
    dtype: np.dtype[Any] = DTYPES[shape.element_type]
    if dtype.kind in "biu" or "int" in dtype.name:
        return random.integers(0, 2 if dtype.kind == "b" else 8, SAMPLES).astype(dtype)
    values = random.standard_normal(SAMPLES)
    if dtype.kind == "c":
        return (values + 1j * random.standard_normal(SAMPLES)).astype(dtype)
    return values.astype(dtype)
