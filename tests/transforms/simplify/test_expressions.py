"""Rules together: dense random expressions keep their bits, and simplifying settles at once.

Operations are drawn on what was made last, of few shapes and with the constants that rules look
for, so that most rules fire many times.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.random_modules import random_module

from lowtide.builder import Builder, BuildError, Op
from lowtide.evaluator import evaluate
from lowtide.ir import ElementType, Instruction, Module, Opcode, array_shape
from lowtide.ir.clone import clone_module
from lowtide.passes.rewriting import Rewriter, Rule, rewrite
from lowtide.testing.check_rule import bits, leaves, special_arguments
from lowtide.transforms.simplify import algebraic_simplifier
from lowtide.transforms.simplify.algebraic_simplifier import rules, simplify
from lowtide.verifier import verify

E = ElementType
TYPES = (E.F32, E.S32, E.U8, E.PRED, E.S8, E.BF16, E.F32, E.S32)
SHAPES = ((4,), (2, 3), (2, 1, 3), (6,), (3, 2), (1, 4), ())
VALUES = (0, 1, -1, 2, 8, 3, -0.0, 0.5, np.inf, -np.inf, 7, 31)
UNARY = (
    Opcode.NEGATE,
    Opcode.ABS,
    Opcode.NOT,
    Opcode.SIGN,
    Opcode.FLOOR,
    Opcode.CEIL,
    Opcode.COPY,
    Opcode.IS_FINITE,
    Opcode.POPULATION_COUNT,
)
BINARY = (
    Opcode.ADD,
    Opcode.SUBTRACT,
    Opcode.MULTIPLY,
    Opcode.MAXIMUM,
    Opcode.MINIMUM,
    Opcode.AND,
    Opcode.OR,
    Opcode.XOR,
    Opcode.DIVIDE,
    Opcode.REMAINDER,
    Opcode.SHIFT_LEFT,
    Opcode.SHIFT_RIGHT_LOGICAL,
    Opcode.SHIFT_RIGHT_ARITHMETIC,
)
REDUCERS = (Opcode.ADD, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.MULTIPLY, Opcode.AND, Opcode.OR)


class Expressions:
    """Draws a module of one computation."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.build = Builder("expressions")
        self.made: list[Op] = []
        for number in range(4):
            shape = array_shape(self.random.choice(TYPES), self.random.choice(SHAPES))
            self.made.append(self.build.parameter(number, shape))
        self.index = self.build.parameter(4, array_shape(E.S32))

    def module(self, steps: int) -> Module:
        families = (
            self.unary,
            self.binary,
            self.binary,
            self.binary,
            self.choice,
            self.compare,
            self.converted,
            self.moved,
            self.moved,
            self.part,
            self.joined,
            self.reduced,
            self.dot,
        )
        while len(self.made) < steps:
            try:
                self.made.append(self.random.choice(families)())
            except BuildError:
                continue
        return self.build.build(self.build.tuple(self.made[-3:]))

    def operand(self) -> Op:
        """Return a value, mostly one of the last."""
        return self.made[-1 - min(int(self.random.expovariate(0.6)), len(self.made) - 1)]

    def like(self, x: Op, element_type: ElementType | None = None) -> Op:
        """Return a value of the shape of x: one that is there, or a repeated constant."""
        kind = element_type or x.element_type
        found = [y for y in self.made if y.dimensions == x.dimensions and y.element_type is kind]
        if found and self.random.random() < 0.6:
            return self.random.choice(found)
        scalar = self.constant(kind)
        if not x.rank:
            return scalar
        if x.rank > 1 and self.random.random() < 0.3:
            row = [y for y in self.made if y.dimensions == x.dimensions[-1:]]
            row = [y for y in row if y.element_type is kind]
            if row:
                return self.build.broadcast(row[-1], x.dimensions, [x.rank - 1])
        return self.build.broadcast(scalar, x.dimensions, ())

    def constant(self, kind: ElementType) -> Op:
        value = self.random.choice(VALUES)
        if kind.is_integer and not np.isfinite(value):
            value = 4
        if kind.is_unsigned:
            value = abs(value)
        number = bool(value) if kind is E.PRED else int(value) if kind.is_integer else value
        return self.build.constant(number, kind)

    def unary(self) -> Op:
        return self.build.emit(self.random.choice(UNARY), [self.operand()])

    def binary(self) -> Op:
        x = self.operand()
        pair = [x, self.like(x)]
        self.random.shuffle(pair)
        fitting = BINARY if x.element_type.is_integer else BINARY[:-3]
        return self.build.emit(self.random.choice(fitting), pair)

    def choice(self) -> Op:
        x = self.operand()
        if self.random.random() < 0.3:
            return self.build.emit(Opcode.CLAMP, [self.like(x), x, self.like(x)])
        pair = [x, self.like(x)]
        self.random.shuffle(pair)
        return self.build.emit(Opcode.SELECT, [self.like(x, E.PRED), *pair])

    def compare(self) -> Op:
        x = self.operand()
        directions = ("EQ", "NE", "LT", "GT", "LE", "GE")
        return self.build.compare(x, self.like(x), self.random.choice(directions))

    def converted(self) -> Op:
        return self.build.convert(self.operand(), self.random.choice(TYPES))

    def moved(self) -> Op:
        x = self.operand()
        kind = self.random.randrange(5)
        if kind == 0:
            order = list(range(x.rank))
            self.random.shuffle(order)
            return self.build.transpose(x, order)
        if kind == 1:
            return self.build.reverse(x, [d for d in range(x.rank) if self.random.random() < 0.5])
        if kind == 2:
            places = sorted(self.random.sample(range(x.rank + 1), x.rank))
            sizes = [self.random.choice((1, 2, 3))] * (x.rank + 1)
            for place, n in zip(places, x.dimensions, strict=True):
                sizes[place] = n
            return self.build.broadcast(x, sizes, places)
        shapes = [s for s in SHAPES if np.prod(s) == x.shape.element_count]
        return self.build.reshape(x, self.random.choice(shapes or [x.dimensions]))

    def part(self) -> Op:
        x = self.operand()
        if x.rank > 3 or self.random.random() < 0.3:
            return self.dynamic(x)
        starts = [self.random.randint(0, n - 1) for n in x.dimensions]
        limits = [self.random.randint(s + 1, n) for s, n in zip(starts, x.dimensions, strict=True)]
        return self.build.slice(x, starts, limits, [self.random.choice((1, 1, 2)) for _ in starts])

    def dynamic(self, x: Op) -> Op:
        sizes = [self.random.choice((n, self.random.randint(1, n))) for n in x.dimensions]
        starts = [
            self.random.choice((self.index, self.build.constant(self.random.randint(-1, 3))))
            for _ in sizes
        ]
        part = self.build.dynamic_slice(x, starts, sizes)
        if self.random.random() < 0.5:
            return part
        return self.build.dynamic_update_slice(x, self.like(part), starts)

    def joined(self) -> Op:
        x = self.operand()
        d = self.random.randrange(max(x.rank, 1))
        if self.random.random() < 0.5:
            parts = [x, self.like(x), self.like(x)][: self.random.randint(1, 3)]
            self.random.shuffle(parts)
            return self.build.concatenate(parts, d)
        padding = [
            self.random.choice(((0, 0), (1, 0), (0, 2), (1, 1, 1), (-1, 1))) for _ in range(x.rank)
        ]
        return self.build.pad(x, self.constant(x.element_type), padding)

    def reduced(self) -> Op:
        x = self.operand()
        if x.element_type.is_floating:
            return self.unary()  # the sign of a greatest zero depends on the order
        computation = self.build.scalar_computation(self.random.choice(REDUCERS), x.element_type)
        dimensions = [d for d in range(x.rank) if self.random.random() < 0.6]
        return self.build.reduce(x, self.constant(x.element_type), computation, dimensions)

    def dot(self) -> Op:
        x, y = self.operand(), self.operand()
        if not x.element_type.is_integer:
            return self.unary()
        return self.build.dot(x, y)


def differences(before: Module, after: Module, seed: int) -> list[str]:
    arguments = special_arguments(before, seed)
    with np.errstate(all="ignore"):
        old, new = evaluate(before, arguments), evaluate(after, arguments)
    pairs = zip(leaves(old), leaves(new), strict=True)
    return [f"{a} became {b}" for a, b in pairs if bits(a) != bits(b)]


def check(seed: int) -> None:
    module = Expressions(seed).module(30)
    before = clone_module(module)
    simplify(module)
    verify(module)
    text = str(module)
    assert simplify(module) == 0
    assert str(module) == text
    found = differences(before, module, seed)
    assert not found, f"seed {seed}: {found}\n{before}\n{module}"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_expressions_keep_their_bits() -> None:
    for seed in range(150):
        check(seed)


def watched(rule: Rule, litter: list[str]) -> Rule:
    """Return the rule; `litter` gets its name where it adds instructions but does not fit."""

    def apply(instruction: Instruction, at: Rewriter) -> Instruction | Op | None:
        count = len(at.computation.instructions)
        made = rule.apply(instruction, at)
        if made is None and len(at.computation.instructions) != count:
            litter.append(rule.name)
        return made

    return replace(rule, apply=apply)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_rules_that_do_not_fit_add_nothing() -> None:
    litter: list[str] = []
    chosen = [watched(rule, litter) for rule in rules()]
    for seed in range(60):
        rewrite(Expressions(seed).module(30), chosen)
        module = random_module(seed)
        module.schedule = None
        rewrite(module, chosen)
    assert litter == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_many_expressions_keep_their_bits() -> None:
    for seed in range(150, 10_000):
        check(seed)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_inexact_rules_settle() -> None:
    for seed in range(60):
        module = Expressions(seed).module(30)
        simplify(module, fast_math=True)
        verify(module)
        assert simplify(module, fast_math=True) == 0


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_many_rules_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    fired: Counter[str] = Counter()

    def counted(*arguments: object) -> Counter[str]:
        counts = rewrite(*arguments)  # type: ignore[arg-type]
        fired.update(counts)
        return counts

    monkeypatch.setattr(algebraic_simplifier, "rewrite", counted)
    for seed in range(100):
        simplify(Expressions(seed).module(30))
    assert len([rule for rule in rules() if rule.exact and fired[rule.name]]) >= 100
