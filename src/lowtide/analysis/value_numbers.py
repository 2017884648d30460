"""Value numbers: equal numbers for what is computed in the same way.

After Alpern, Wegman and Zadeck, "Detecting equality of variables in programs" (1988).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Final, TypeAlias, final

from lowtide.ir import Attributes, Computation, Instruction, Opcode
from lowtide.ir.annotations import NO_ANNOTATIONS
from lowtide.ir.attributes import NO_ATTRIBUTES, CustomCall, GetTupleElement
from lowtide.ir.traversal import callees, post_order
from lowtide.ops.effects import has_side_effect
from lowtide.ops.table import TABLE

_UNIQUE: Final = frozenset(
    {Opcode.OPTIMIZATION_BARRIER, Opcode.RNG, Opcode.RNG_GET_AND_UPDATE_STATE}
)
_COMMUTATIVE: Final = frozenset({opcode for opcode, row in TABLE.items() if row.commutative})


def stands_alone(x: Instruction) -> bool:
    """Whether a value is equal to no other, whatever computes that.

    So are side effects, control edges, random results, and optimization barriers, which stand for
    a wish to compute twice.
    """
    if x.opcode in _UNIQUE or x.control_predecessors or x.control_successors:
        return True
    return has_side_effect(x)


def plain_form(x: Instruction) -> Hashable:
    """What equal instructions agree in besides opcode, operands and callees: not annotations.

    The configuration of a custom call says what it does.
    """
    attributes = x.attributes
    if isinstance(attributes, CustomCall):
        return attributes, x.shape, x.annotations.backend_config
    return x.shape if attributes is NO_ATTRIBUTES else (attributes, x.shape)


def text_key(x: Instruction, numbers: Mapping[Instruction, int]) -> Hashable:
    """Return all that is said of an instruction, with the numbers of its operands.

    Unlike value numbers that leaves nothing out: a computation whose instructions have the same
    keys can take the place of another. What has control edges is its own key.
    """
    if x.control_predecessors or x.control_successors:
        return x
    operands = tuple([numbers[y] for y in x.operands])
    attributes, annotations = x.attributes, x.annotations
    # What most have nothing of need not be hashed field by field.
    said = None if attributes.__class__ is Attributes else attributes
    noted = None if annotations is NO_ANNOTATIONS or annotations == NO_ANNOTATIONS else annotations
    return (x.opcode, x.shape, operands, said, x.called_computations, noted)


Alone: TypeAlias = Callable[[Instruction], bool]
Form: TypeAlias = Callable[[Instruction], Hashable]


@final
class ValueNumbers:
    """Numbers for instructions and computations; those of one object can be compared.

    Instructions are equal where opcode, operands, these in any order where the operation commutes,
    called computations and what `form` says of them are equal, unless they stand `alone`. Names
    and source lines do not count. With `through_barriers` a barrier is what it passes on: for what
    would be equal without it. Without `inside` called computations are not looked into: each equals
    none but itself, unless `set_computation` says more.
    """

    def __init__(
        self,
        *,
        alone: Alone = stands_alone,
        form: Form = plain_form,
        inside: bool = True,
        through_barriers: bool = False,
    ) -> None:
        self._alone = alone
        self._form = form
        self._inside = inside
        self._through_barriers = through_barriers
        self._numbers: dict[Hashable, int] = {}
        self._computations: dict[Computation, int] = {}

    def of_key(self, key: Hashable) -> int:
        """Return the number of any value, the same for equal ones."""
        return self._numbers.setdefault(key, len(self._numbers))

    def of(self, x: Instruction, found: Mapping[Instruction, int], form: Form | None = None) -> int:
        """Return the number of an instruction whose operands have theirs in `found`.

        `form` takes the place of that of all others.
        """
        if self._alone(x):
            return self.of_key(x)
        operands = [found[y] for y in x.operands]
        if len(operands) > 1 and x.opcode in _COMMUTATIVE:
            operands.sort()
        called: tuple[object, ...] = x.called_computations
        if called:
            called = tuple([self.of_computation(y) for y in x.called_computations])
        key = (x.opcode, tuple(operands), called, (form or self._form)(x))
        return self._numbers.setdefault(key, len(self._numbers))

    def of_instructions(
        self, computation: Computation, given: Mapping[Instruction, int]
    ) -> dict[Instruction, int]:
        """Return the numbers of all instructions; those in `given` have theirs already.

        An element of a tuple that is made in the computation is what went into it.
        """
        found: dict[Instruction, int] = {}
        for x in post_order(computation):
            number = given.get(x)
            if number is None:
                source = self._passed_on(x)
                number = self.of(x, found) if source is None else found[source]
            found[x] = number
        return found

    def _passed_on(self, x: Instruction) -> Instruction | None:
        """The value that an instruction passes on; None where it makes one."""
        if self._through_barriers and x.opcode is Opcode.OPTIMIZATION_BARRIER:
            return x.operands[0]
        if x.opcode is not Opcode.GET_TUPLE_ELEMENT:
            return None
        source = x.operands[0]
        while self._through_barriers and source.opcode is Opcode.OPTIMIZATION_BARRIER:
            source = source.operands[0]
        if source.opcode is not Opcode.TUPLE:
            return None
        return source.operands[x.attributes_as(GetTupleElement).index]

    def of_computation(self, computation: Computation) -> int:
        """Return the number of a computation: the same for those that compute the same."""
        stack = [computation]
        while stack:
            current = stack[-1]
            if current in self._computations:
                stack.pop()
                continue
            if not self._inside:
                self._computations[current] = self.of_key(current)
                continue
            waiting = [y for y in callees(current) if y not in self._computations]
            if waiting:
                stack += waiting
                continue
            self._computations[current] = self._number(current)
            stack.pop()
        return self._computations[computation]

    def _number(self, computation: Computation) -> int:
        values = computation.instructions.values()
        for x in values:
            if x.has_control_edges or has_side_effect(x):
                return self.of_key(computation)
        given = {
            x: self.of_key(("parameter", number, x.shape))
            for number, x in enumerate(computation.parameters)
        }
        return self._of_result(computation, self.of_instructions(computation, given))

    def set_computation(self, computation: Computation, found: Mapping[Instruction, int]) -> None:
        """Number a computation by its instructions, for which `of` returned what is `found`."""
        self._computations[computation] = self._of_result(computation, found)

    def _of_result(self, computation: Computation, found: Mapping[Instruction, int]) -> int:
        shapes = tuple([x.shape for x in computation.parameters])
        root = found[computation.root]
        return self.of_key(("computation", root, shapes, computation.execution_thread))
