"""Finding the attention in a fusion: its dots, and how the weights ask for scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, final

from lowtide.codegen.cpu.attention.form import Attention, Scores, reduced_index, row_length
from lowtide.codegen.cpu.contraction.behind import forms_behind
from lowtide.codegen.elements.literals import scalar
from lowtide.codegen.elements.operands import bind, body_of
from lowtide.codegen.elements.scalar import scalar_elements
from lowtide.codegen.elements.table import has_rule
from lowtide.codegen.elements.values import CallFrame, Element, Mask
from lowtide.codegen.indexing import Affine, Index, Variable
from lowtide.ir import Instruction, Opcode
from lowtide.ir.traversal import post_order
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.ops.dot_roles import dot_roles
from lowtide.ops.in_place import ATTENTION
from lowtide.ops.table import TABLE

_KEEPING: Final = (
    *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.REDUCE, Opcode.RESHAPE, Opcode.TRANSPOSE),
)

Rule: TypeAlias = "Callable[[Index, Mask | None], Element]"


def attention_of(instruction: Instruction, target: Target) -> Attention | None:
    """Return what a fusion computes as an attention, None where it is something else."""
    body = body_of(instruction)
    if body is None or instruction.annotations.backend_config != ATTENTION:
        return None
    order = post_order(body)
    if any(x.opcode is Opcode.FUSION or not has_rule(x) for x in order):
        return None
    last = _last_dot(body.root)
    if last is None:
        return None
    sides = [_dots_behind(x) for x in last.operands]
    if bool(sides[0]) == bool(sides[1]):
        return None
    side = 0 if sides[0] else 1
    dependent = _between(last.operands[side], sides[side])
    if forms_behind(last).get(body.root) is None:
        return None
    if any(x.operands[1] in dependent for x in dependent if _reduces(x)):
        return None
    trial = _Trial(instruction, last, side, sides[side], dependent, body.root, target)
    return trial.found()


def _reduces(x: Instruction) -> bool:
    return x.opcode is Opcode.REDUCE


def _last_dot(root: Instruction) -> Instruction | None:
    """The dot that the root depends on without another one between."""
    if not root.shape.is_array:
        return None
    found = _dots_behind(root) if root.opcode is not Opcode.DOT else [root]
    return found[0] if len(found) == 1 else None


def _dots_behind(x: Instruction) -> list[Instruction]:
    """The dots that a value is made of, those not looked at that others are made of."""
    seen = {x: None}
    stack = [x]
    found: dict[Instruction, None] = {}
    while stack:
        y = stack.pop()
        if y.opcode is Opcode.DOT:
            found[y] = None
            continue
        fresh = [z for z in y.operands if z not in seen]
        seen |= dict.fromkeys(fresh)
        stack += fresh
    return list(found)


def _between(weights: Instruction, dots: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """What depends on dots and what the weights depend on, the dots left out."""
    behind = {weights: None}
    stack = [weights]
    while stack:
        x = stack.pop()
        if x in dots:
            continue
        fresh = [y for y in x.operands if y not in behind]
        behind |= dict.fromkeys(fresh)
        stack += fresh
    found: dict[Instruction, None] = {}
    stack = list(dots)
    while stack:
        fresh = [y for y in stack.pop().users if y in behind and y not in found]
        found |= dict.fromkeys(fresh)
        stack += fresh
    return tuple(found)


@final
class _Trial:
    """Computes the weights once, for nothing, to see how they ask for scores."""

    def __init__(
        self,
        instruction: Instruction,
        dot: Instruction,
        side: int,
        dots: Sequence[Instruction],
        dependent: tuple[Instruction, ...],
        root: Instruction,
        target: Target,
    ) -> None:
        self.form = Attention(instruction, dot, side, (), dependent, root)
        self.dots = dots
        self.elements = scalar_elements(Function("trial"), target)
        self.frame: CallFrame = bind(self.elements.function, instruction).frame
        self.asked: dict[Instruction, Index] = {}
        self.steps: set[Variable] = set()
        self.is_regular = True

    def found(self) -> Attention | None:
        """Return the attention, None where scores are not asked for along rows."""
        form, elements = self.form, self.elements
        kept = [d for d in range(form.weights.shape.rank) if d not in form.roles.inner]
        sizes = form.sizes(kept)
        rows = {d: elements.indices.variable(f"%r{d}", n) for d, n in zip(kept, sizes, strict=True)}
        for dot in self.dots:
            elements.provide(dot, self._score(dot))
        for hero in form.heroes():
            elements.provide(hero, self._reduction(hero))
        place = self._step(form.length)
        elements.at(form.weights, form.weights_index(elements, rows, place), self.frame)
        if not self.is_regular or set(self.asked) != set(self.dots):
            return None
        scores = [self._scores(dot) for dot in self.dots]
        known = tuple([x for x in scores if x is not None])
        if len(known) < len(scores):
            return None
        fixed = self._fixed(rows, known)
        return Attention(
            form.instruction,
            form.dot,
            form.side,
            known,
            form.dependent,
            form.root,
            tuple(sorted(fixed)),
            tuple([d for d in kept if d not in fixed]),
            self._is_aligned(known),
            self.asked,
            {d: x.terms[0][0] for d, x in rows.items() if x.terms},
        )

    def _is_aligned(self, scores: Sequence[Scores]) -> bool:
        """Whether each weight needs scores at its own place only, and what reductions yield."""
        form = self.form
        if len(scores) > 1 or len(self.steps) != len(form.heroes()) + 1:
            return False
        row = [*form.sizes(form.roles.inner)]
        keys = [scores[0].dot.shape.dimensions[d] for d in scores[0].keys]
        if any(sum([size != 1 for size in sizes]) > 1 for sizes in (row, keys)):
            return False
        return all(x.opcode in _KEEPING or TABLE[x.opcode].elementwise for x in form.dependent)

    def _step(self, length: int) -> Affine:
        found = self.elements.indices.variable("%step", max(length, 2))
        self.steps.add(found.terms[0][0])
        return found

    def _score(self, dot: Instruction) -> Rule:
        def rule(at: Index, mask: Mask | None) -> Element:
            self.asked.setdefault(dot, at)
            return Element((scalar(0, dot.shape.element_type),), 0)

        return rule

    def _reduction(self, hero: Instruction) -> Rule:
        def rule(at: Index, mask: Mask | None) -> Element:
            if any(self._along(x) for x in at):
                self.is_regular = False
            place = self._step(row_length(hero))
            index = reduced_index(self.elements, hero, at, place)
            self.elements.at(hero.operands[0], index, self.frame)
            return Element((scalar(0, hero.shape.element_type),), 0)

        return rule

    def _along(self, x: Affine) -> bool:
        """Whether an index depends on the place in a row."""
        return any(variable in self.steps for variable, _ in x.terms)

    def _scores(self, dot: Instruction) -> Scores | None:
        """Which operand of a first dot has the keys, None where that cannot be seen."""
        at = self.asked[dot]
        for side, roles in enumerate(dot_roles(dot)):
            alone = roles.in_result
            others = [d for d in range(dot.shape.rank) if d not in alone]
            along = [self._along(at[d]) for d in alone]
            if any(along) and not any(self._along(at[d]) for d in others):
                return Scores(dot, side)
        return None

    def _fixed(self, rows: dict[int, Affine], scores: Sequence[Scores]) -> set[int]:
        """The dimensions of the weights that choose keys or values."""
        found = set(self.form.roles.batch)
        of = {x.terms[0][0]: d for d, x in rows.items() if x.terms}
        for x in scores:
            at = self.asked[x.dot]
            for d in range(len(dot_roles(x.dot)[0].batch)):
                for variable, _ in at[d].terms:
                    if variable not in of:
                        found |= set(rows)
                    else:
                        found.add(of[variable])
        return found
