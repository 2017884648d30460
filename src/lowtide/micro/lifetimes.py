"""Tensors of a model as a microcontroller holds them: their bytes, and when they are needed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

from lowtide.frontend.tflite.model import LiteGraph, LiteOperator
from lowtide.records import dataclass

LINE: Final = 16
"""What offsets and sizes are multiples of in TFLite Micro's arena."""

IN_PLACE: Final = frozenset(
    {
        "ABS",
        "ADD",
        "CEIL",
        "COS",
        "DIV",
        "ELU",
        "EXP",
        "FLOOR",
        "HARD_SWISH",
        "LEAKY_RELU",
        "LOG",
        "LOGISTIC",
        "MAXIMUM",
        "MINIMUM",
        "MUL",
        "NEG",
        "RELU",
        "RELU6",
        "RELU_N1_TO_1",
        "RESHAPE",
        "ROUND",
        "RSQRT",
        "SIN",
        "SQRT",
        "SQUARE",
        "SQUARED_DIFFERENCE",
        "SUB",
        "TANH",
    }
)
"""Operators whose kernels read an element before they write it, and never read it again."""

_STATEFUL: Final = frozenset(
    {
        "ASSIGN_VARIABLE",
        "CALL_ONCE",
        "IF",
        "MULTINOMIAL",
        "RANDOM_STANDARD_NORMAL",
        "RANDOM_UNIFORM",
        "READ_VARIABLE",
        "VAR_HANDLE",
        "WHILE",
    }
)
"""Operators that keep their order among themselves, as custom ones do."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """A tensor's bytes, in whole lines, and its first and last step, both included.

    Inputs of the model are there from step -1 on, outputs to the last step.
    """

    tensor: int
    nbytes: int
    first: int
    last: int


def lifetimes(graph: LiteGraph, order: Sequence[int]) -> list[Lifetime]:
    """Return the lifetimes of what lies in the arena if operators run in an order.

    Constants, variables and tensors without bytes do not; nor do those that nothing touches.
    """
    ends: dict[int, list[int]] = {}
    steps = [(-1, graph.inputs)]
    for step, number in enumerate(order):
        operator = graph.operators[number]
        steps.append((step, (*operator.inputs, *operator.outputs, *operator.intermediates)))
    steps.append((max(len(order) - 1, 0), graph.outputs))
    for step, tensors in steps:
        for tensor in tensors:
            if tensor >= 0:
                ends.setdefault(tensor, [step, step])[1] = step
    return [
        Lifetime(tensor, in_lines(graph.tensors[tensor].nbytes), first, last)
        for tensor, (first, last) in sorted(ends.items())
        if is_in_arena(graph, tensor)
    ]


def is_in_arena(graph: LiteGraph, tensor: int) -> bool:
    """Return whether a tensor takes room in the arena's head."""
    found = graph.tensors[tensor]
    return found.data is None and not found.is_variable and found.nbytes > 0


def in_lines(nbytes: int) -> int:
    """Return bytes rounded up to whole lines."""
    return -(-nbytes // LINE) * LINE


def overwritable(graph: LiteGraph, operator: LiteOperator) -> list[int]:
    """Return the inputs whose place the one output of an operator may take, if they end there."""
    if operator.name not in IN_PLACE or len(operator.outputs) != 1:
        return []
    made = graph.tensors[operator.outputs[0]]
    if not is_in_arena(graph, made.number):
        return []
    found = []
    for number in dict.fromkeys(operator.inputs):
        if number < 0 or not is_in_arena(graph, number) or number in graph.outputs:
            continue
        given = graph.tensors[number]
        same = given.shape == made.shape or operator.name == "RESHAPE"
        if same and given.type == made.type and given.nbytes == made.nbytes:
            found.append(number)
    return found


def is_stateful(graph: LiteGraph, operator: LiteOperator) -> bool:
    """Return whether an operator keeps its place among those that touch state."""
    touched = (*operator.inputs, *operator.outputs)
    is_custom = operator.name.startswith("CUSTOM:")
    holds = any(x >= 0 and graph.tensors[x].is_variable for x in touched)
    return is_custom or holds or operator.name in _STATEFUL


def live_bytes(lives: Iterable[Lifetime]) -> dict[int, int]:
    """Return how many bytes are live from a step on, by the steps at which that changes."""
    change: dict[int, int] = {}
    for life in lives:
        change[life.first] = change.get(life.first, 0) + life.nbytes
        change[life.last + 1] = change.get(life.last + 1, 0) - life.nbytes
    steps = sorted(change)
    return dict(zip(steps, accumulate([change[x] for x in steps]), strict=True))


def peak_step(lives: Iterable[Lifetime]) -> int:
    """Return the first step of the most live bytes; raises ValueError without lifetimes."""
    live = live_bytes(lives)
    return max(live, key=lambda x: (live[x], -x))
