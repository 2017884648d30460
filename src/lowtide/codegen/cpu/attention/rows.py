"""Weights from scores, along the rows of a block of an attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.attention.blocks import Blocks
from lowtide.codegen.cpu.attention.form import Attention, Scores, reduced_index, row_length
from lowtide.codegen.cpu.cost import vector_cycles
from lowtide.codegen.cpu.reduction.strip import Strip, StripStep
from lowtide.codegen.cpu.reduction.totals import Totals
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import CallFrame, Element, Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index, linear
from lowtide.codegen.value import Value
from lowtide.ir import Instruction, Opcode, array_shape
from lowtide.ops.table import TABLE

TOTALS: Final = 4
"""Totals that take turns along a row."""

_DEAR: Final = 6.0
"""Cycles of a vector from which on a value is kept for the next run along the row."""


@final
class WeightRows:
    """Writes the weights of one row after the other; scores and weights lie in scratch."""

    def __init__(self, blocks: Blocks, elements: Elements, frame: CallFrame) -> None:
        self.blocks = blocks
        self.form: Attention = blocks.form
        self.elements = elements
        self.frame = frame
        self.rows: dict[int, Affine] = {}
        self.scores: dict[Instruction, Array] = {}
        self.weights = ""
        self.known: dict[tuple[Instruction, Index], Element] = {}
        self.kept = _kept(self.form)
        self.is_kept = False
        for scores in self.form.scores:
            elements.provide(scores.dot, self._score(scores))
        for hero in self.form.heroes():
            elements.provide(hero, self._reduction(hero))

    def write(self, rows: dict[int, Affine], scores: list[str], weights: str) -> None:
        """Write the weights of a row; `scores` and `weights` are the addresses of its rows."""
        form, elements = self.form, self.elements
        self.rows = rows
        self.weights = weights
        self.known.clear()
        self.is_kept = False
        for x, pointer, step in zip(form.scores, scores, self.blocks.steps, strict=True):
            shape = array_shape(self.blocks.last.how.total, (step,))
            self.scores[x.dot] = Array(pointer, shape)
        start = elements.indices.variable(0, form.length)
        elements.at(form.weights, form.weights_index(elements, rows, start), self.frame)
        if self.kept is not None and self.is_kept:
            elements.given[self.kept] = self._loaded(self.kept)
        strip = Strip(elements, [form.length], elements.lanes, has_first=False)
        strip.write([[], []], self._weight)
        if self.kept is not None:
            elements.given.pop(self.kept, None)

    def _weight(self, step: StripStep, totals: list[Value]) -> list[Value]:
        """Store a vector of weights."""
        form, elements = self.form, self.elements
        index = form.weights_index(elements, self.rows, step.linear)
        value = elements.at(form.weights, index, self.frame, step.mask)
        self._store(value, step)
        return []

    def _store(self, value: Value, step: StripStep) -> None:
        elements = self.elements
        total = self.blocks.last.how.total
        (value,) = converted(elements, Element((value,), elements.scopes.level), total).values
        if not value.lanes:
            value = elements.vectors.splat(value)
        memory.store(elements.function, elements.target, value, self._place(step.linear))

    def _place(self, position: Affine) -> str:
        fn = self.elements.function
        size = self.blocks.last.how.unit_bytes
        return fn.gep(self.weights, fn.mul(self.elements.indices.scalar(position), size))

    def _loaded(self, kept: Instruction) -> Callable[[Index, Mask | None], Element]:
        """The values that a reduction has left where the weights will be."""

        def rule(at: Index, mask: Mask | None) -> Element:
            elements = self.elements
            inner = self.form.roles.inner
            position = linear(tuple([at[d] for d in inner]), self.form.sizes(inner))
            total = self.blocks.last.how.total
            fn, target = elements.function, elements.target
            value = memory.load(fn, target, total, self._place(position), elements.lanes)
            found = Value(value.names, kept.shape.element_type, value.lanes)
            return Element((found,), elements.scopes.level)

        return rule

    # -- what is asked for along a row -----------------------------------------------------------

    def _score(self, scores: Scores) -> Callable[[Index, Mask | None], Element]:
        sizes = tuple([scores.dot.shape.dimensions[d] for d in scores.keys])

        def rule(at: Index, mask: Mask | None) -> Element:
            elements = self.elements
            place = linear(tuple([at[d] for d in scores.keys]), sizes)
            found = elements.read(self.scores[scores.dot], (place,), mask)
            return converted(elements, found, scores.dot.shape.element_type)

        return rule

    def _reduction(self, hero: Instruction) -> Callable[[Index, Mask | None], Element]:
        def rule(at: Index, mask: Mask | None) -> Element:
            found = self.known.get((hero, at))
            if found is None:
                level = self.elements.scopes.placed(max([x.level for x in at], default=0))
                with self.elements.scopes.at_level(level):
                    found = self.known[hero, at] = self._reduced(hero, at)
            return found

        return rule

    def _reduced(self, hero: Instruction, at: Index) -> Element:
        """Run along a row, and return what a reduction makes of it."""
        elements, length = self.elements, row_length(hero)
        totals = Totals(elements, self.frame, [hero])
        whole = length // elements.lanes if not totals.are_monoids else -(-length // elements.lanes)
        count = max(1, min(TOTALS, whole))
        strip = Strip(elements, [length], elements.lanes, has_first=not totals.are_monoids)
        keeps = self.kept is hero.operands[0] and not self.is_kept

        def body(step: StripStep, before: list[Value]) -> list[Value]:
            index = reduced_index(elements, hero, at, step.linear)
            values = totals.taken(index, step.mask, elements.lanes)
            if keeps:
                value = elements.at(hero.operands[0], index, self.frame, step.mask)
                self._store(value, step)
            return totals.added(before, values, step.mask, step.is_first)

        start = totals.start(elements.lanes)
        after = strip.write([list(start) for _ in range(count)], body)
        self.is_kept = self.is_kept or keeps
        return totals.finished(totals.folded(after), 0)[0]


def _kept(form: Attention) -> Instruction | None:
    """What a reduction adds up that the weights are made of as well, if it takes long.

    It is stored where the weights will be; so nothing but their own places may be read of it.
    """
    if not form.is_aligned:
        return None
    seen: dict[Instruction, None] = {}
    stack = [form.weights]
    while stack:
        x = stack.pop()
        if x in seen or x not in form.dependent or x.opcode is Opcode.REDUCE:
            continue
        seen[x] = None
        if TABLE[x.opcode].elementwise:
            stack += [y for y in x.operands if y.shape.dimensions == x.shape.dimensions]
    for hero in form.heroes():
        value = hero.operands[0]
        reads = [y for y in value.users if y is not hero and y not in seen]
        if value in seen and not reads and vector_cycles([value]) >= _DEAR:
            return value
    return None
