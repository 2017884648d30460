"""Gradients of the tape agree with differences of values."""

from collections.abc import Callable

import numpy as np
import pytest
from tests.generated.gradients import Tape

from lowtide.builder import Builder, Op
from lowtide.evaluator import evaluate
from lowtide.ir import ElementType, array_shape
from lowtide.ir.attributes import DotDimensions

SIZES = (2, 3, 4)
Function = Callable[[Tape, Op, Op], Op]

FUNCTIONS: dict[str, Function] = {
    "add": lambda t, x, y: t.add(x, t.multiply(x, y)),
    "subtract": lambda t, x, y: t.subtract(t.scale(x, 3.0), y),
    "divide": lambda t, x, y: t.divide(x, y),
    "exponential": lambda t, x, y: t.multiply(t.exponential(x), y),
    "tanh": lambda t, x, y: t.multiply(t.tanh(x), y),
    "rsqrt": lambda t, x, y: t.multiply(t.rsqrt(x), y),
    "where": lambda t, x, y: t.where(t.build.compare(x, y, "LT"), t.multiply(x, y), 2.0),
    "convert": lambda t, x, y: t.convert(t.convert(t.multiply(x, y), E.F64), E.F64),
    "spread": lambda t, x, y: t.multiply(t.spread(t.total(x, 1), SIZES, (0, 2)), y),
    "reshape": lambda t, x, y: t.multiply(t.reshape(x, (6, 4)), t.reshape(y, (6, 4))),
    "transpose": lambda t, x, y: t.multiply(
        t.transpose(x, (2, 0, 1)), t.transpose(t.multiply(y, y), (2, 0, 1))
    ),
    "dot": lambda t, x, y: t.dot(x, y, DotDimensions((2,), (2,))),
    "dot of batches": lambda t, x, y: t.dot(x, y, DotDimensions((1,), (1,), (0,), (0,))),
    "dot of two": lambda t, x, y: t.dot(x, y, DotDimensions((2, 0), (2, 0))),
    "dot of middle": lambda t, x, y: t.dot(x, y, DotDimensions((0,), (0,), (2,), (2,))),
}
E = ElementType


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_slopes(name: str) -> None:
    build = Builder("m")
    shape = array_shape(E.F64, SIZES)
    x, y = build.parameter(0, shape), build.parameter(1, shape)
    tape = Tape(build)
    result = FUNCTIONS[name](tape, x, y)
    gradients = tape.gradients(result, result)
    found = [gradients[p.instruction.name] for p in (x, y)]
    module = build.build(build.tuple([result, *found]))

    def run(*arguments: np.ndarray) -> tuple[np.ndarray, ...]:
        return evaluate(module, list(arguments))

    random = np.random.default_rng(0)
    point = [random.uniform(0.5, 1.5, SIZES) for _ in range(2)]
    slopes = run(*point)[1:]
    for number in range(2):
        direction = random.normal(size=SIZES)
        step = [d * 1e-6 for d in (direction, 0 * direction)][:: 1 - 2 * number]
        above, below = [
            (run(*[p + sign * s for p, s in zip(point, step, strict=True)])[0] ** 2).sum() / 2
            for sign in (1, -1)
        ]
        assert (slopes[number] * direction).sum() == pytest.approx((above - below) / 2e-6, 1e-6)
