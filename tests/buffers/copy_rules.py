"""What the rules of copy insertion are written in: small programs with the copies they need."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lowtide.builder import Builder, Op, SubComputation
from lowtide.ir import ElementType, Module, array_shape, tuple_shape

SCALAR = array_shape(ElementType.F32)
VECTOR = array_shape(ElementType.F32, (4,))
MATRIX = array_shape(ElementType.F32, (4, 4))
PART = array_shape(ElementType.F32, (1,))
NUMBER = array_shape(ElementType.S32)
CHOICE = array_shape(ElementType.PRED)

ARGUMENTS = {
    "p": VECTOR,
    "q": VECTOR,
    "r": VECTOR,
    "m": MATRIX,
    "u": PART,
    "k": NUMBER,
    "n": NUMBER,
    "c": CHOICE,
}
"""The arguments that a program may ask for by name, in this order."""

Program = Callable[..., Op]


@dataclass(frozen=True)
class Rule:
    """A program, and how many copies it needs.

    `free` is the number where instructions may run in any order, `given` that in the order of
    creation, and `xla` what XLA leaves where the order is free, None where that is not recorded.
    `edges` are pairs of names, of which the first has to run before the second so that no copy
    between them is needed.
    """

    program: Program
    free: int
    given: int
    xla: int | None
    edges: frozenset[tuple[str, str]]

    def module(self) -> Module:
        """Return the program as a new module."""
        builder = Builder("rule")
        wanted = list(inspect.signature(self.program).parameters)[1:]
        arguments = [
            builder.parameter(number, ARGUMENTS[name], name) for number, name in enumerate(wanted)
        ]
        return builder.build(self.program(builder, *arguments))


RULES: dict[str, Rule] = {}


def rule(
    free: int,
    given: int | None = None,
    *,
    xla: int | None = None,
    edges: Sequence[tuple[str, str]] = (),
) -> Callable[[Program], Program]:
    """Enter a program in `RULES`; without further numbers all are those of a free order."""

    def enter(program: Program) -> Program:
        name = program.__name__.replace("_", " ")
        assert name not in RULES
        RULES[name] = Rule(program, free, free if given is None else given, xla, frozenset(edges))
        return program

    return enter


# -- parts of programs -------------------------------------------------------------------------


def update(target: Op, part: Op, start: Op) -> Op:
    """Return the vector with one element replaced."""
    return target.builder.dynamic_update_slice(target, part, [start])


def part_of(vector: Op, start: Op) -> Op:
    """Return one element of a vector."""
    return vector.builder.dynamic_slice(vector, [start], [1])


def loop(
    inits: Sequence[Op], step: Callable[..., Sequence[Op]], *, counts_first: bool = False
) -> Op:
    """Return the state, a counter and values, after three steps; the body is `step` of both.

    The counter starts from a constant, which takes a copy; it grows last, or first.
    """
    builder = inits[0].builder
    state = tuple_shape([NUMBER, *[op.shape for op in inits]])
    condition = builder.sub_computation("condition", [state], lambda s: s[0].lt(3))

    def body(parameter: Op) -> Op:
        counter, *values = list(parameter)
        following = counter + 1 if counts_first else None
        results = step(counter, *values)
        if following is None:
            following = counter + 1
        return parameter.builder.tuple([following, *results])

    stepped = builder.sub_computation("body", [state], body)
    return builder.while_(condition, stepped, builder.tuple([builder.constant(0), *inits]))


def choose(
    choice: Op,
    values: Sequence[Op],
    taken: Callable[..., Sequence[Op]],
    left: Callable[..., Sequence[Op]],
) -> Op:
    """Return what one of two functions makes of the values, as a tuple."""
    builder = choice.builder
    operand = builder.tuple(values)

    def branch(name: str, function: Callable[..., Sequence[Op]]) -> SubComputation:
        return builder.sub_computation(
            name, [operand.shape], lambda x: x.builder.tuple(function(*list(x)))
        )

    branches = [branch("taken", taken), branch("left", left)]
    return builder.conditional(choice, [operand, operand], branches)
