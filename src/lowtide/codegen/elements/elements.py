"""The values of a kernel's instructions at index tuples: how all kernels compute elements.

Every value is written where the loops around it allow, as far out as it can be, and once. A rule
for an operation (`rules.py`) is a generator: it yields the operands' elements that it needs and
gets their values; so chains of any length take no stack. Which rules there are, and how memory is
accessed, is handed in: `scalar.py` for any target, `cpu/vector_elements.py` for processors with
vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from lowtide.codegen.arrays import Array, element_address, offset
from lowtide.codegen.elements.indices import Indices
from lowtide.codegen.elements.lanes import Vectors
from lowtide.codegen.elements.scopes import Scopes
from lowtide.codegen.elements.values import CallFrame, Element, Mask, Request, Rule
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine, Index
from lowtide.codegen.value import Value
from lowtide.ir import Computation, ElementType, Instruction, Shape
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target

ElementRule: TypeAlias = "Callable[[Elements, Request], Rule]"
"""Computes a request for an instruction."""

RuleOf: TypeAlias = "Callable[[Instruction], ElementRule]"
"""The rule of an instruction; raises UnsupportedOpError where there is none."""

Given: TypeAlias = "Callable[[Index, Mask | None], Element]"
"""What a kernel says about the elements of an instruction."""


class ElementMemory(Protocol):
    """How elements come from memory and go there, at places that are within their arrays."""

    def load(self, elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
        """Write the load of an element, or of one for each lane."""

    def store(
        self, elements: Elements, array: Array, place: Affine, value: Value, mask: Mask | None
    ) -> None:
        """Write the store of an element, or of one for each lane that a mask does not leave out."""

    def store_in_turn(
        self,
        elements: Elements,
        array: Array,
        places: Sequence[Affine],
        values: Sequence[Value],
        mask: Mask | None,
    ) -> bool:
        """Store values that follow each other in memory in each lane; return whether they do.

        By default nothing is stored in turn.
        """
        return False


class Elements:
    """Writes elements into a function, in its loops and conditions (`scopes`).

    `lanes` is the length of vectors; a lane variable makes values vary over so many.
    """

    def __init__(
        self, function: Function, target: Target, lanes: int, rule_of: RuleOf, memory: ElementMemory
    ) -> None:
        self.function = function
        self.target = target
        self.lanes = lanes
        self.memory = memory
        self.scopes = Scopes(function)
        self.indices = Indices(self.scopes, lanes)
        self.vectors = Vectors(self.scopes, lanes)
        self.globals: dict[str, str] = {}
        self.reads: list[tuple[Array, Affine]] = []
        """All places in memory that are read or written."""
        self.writes: list[tuple[Array, Affine]] = []
        """Those that are written by `store`."""
        self.raw: Mapping[ElementType, ElementType] = {}
        """Types of constants in whose place integers are moved."""
        self.has_aligned_lanes = False
        """Whether lane variables are multiples of the number of lanes."""
        self.given: dict[Instruction, Given] = {}
        """What kernels say for now, ahead of what they `provide`."""
        self._rule_of = rule_of
        self._frames: dict[tuple[CallFrame, Instruction], CallFrame] = {}
        self._provided: dict[Instruction, Given] = {}

    # -- elements ------------------------------------------------------------------------------

    def provide(self, instruction: Instruction, given: Given) -> None:
        """Have the elements of an instruction come from a kernel instead of its rule."""
        self._provided[instruction] = given

    def at(
        self, instruction: Instruction, index: Index, frame: CallFrame, mask: Mask | None = None
    ) -> Value:
        """Return the value of an array-shaped instruction at an index."""
        (value,) = self.all_at(instruction, index, frame, mask).values
        return value

    def all_at(
        self, instruction: Instruction, index: Index, frame: CallFrame, mask: Mask | None = None
    ) -> Element:
        """Return the values of an instruction, one for each array of its shape."""
        scopes = self.scopes
        stack: list[tuple[Any, Rule]] = []
        found: Element | None = None
        request: Request | None = Request(instruction, index, mask, frame)
        while True:
            if request is not None:
                key = request = _wanted(request)
                found = scopes.known(key)
                if found is None:
                    stack.append((key, self._rule(request)))
            if not stack:
                assert found is not None
                return found
            key, rule = stack[-1]
            try:
                request = next(rule) if found is None else rule.send(found)
                found = None
            except StopIteration as end:
                stack.pop()
                found, request = end.value, None
                assert found is not None
                scopes.remember(key, found.level, found)

    def _rule(self, request: Request) -> Rule:
        """What computes a request: the kernel, a load, or the rule of the operation."""
        instruction = request.instruction
        given = self.given.get(instruction) or self._provided.get(instruction)
        if given is not None:
            return _at_once(given(request.at, request.mask))
        array = request.frame.arrays.get(instruction)
        if array is not None:
            return _at_once(self.read(array, request.at, request.mask))
        return self._rule_of(instruction)(self, request)

    def frame_of(self, parent: CallFrame, caller: Instruction) -> CallFrame:
        """Return the frame of the computation that an instruction of `parent` calls."""
        key = (parent, caller)
        return self._frames.setdefault(key, CallFrame(caller=caller, parent=parent))

    def apply(
        self, computation: Computation, elements: Sequence[Element], mask: Mask | None = None
    ) -> Element:
        """Return what a computation of scalars makes of elements, per lane."""
        bound = dict(zip(computation.parameters, elements, strict=True))
        return self.all_at(computation.root, (), CallFrame(elements=bound), mask)

    def is_one_for_all(self, index: Affine, size: int) -> bool:
        """Return whether all lanes are below `size` if one is, for certain."""
        if not self.has_aligned_lanes or index.lane_step != 1:
            return False
        steps = [x for variable, x in index.terms if not variable.is_lane]
        return all(x % self.lanes == 0 for x in (size, index.constant, *steps))

    # -- memory --------------------------------------------------------------------------------

    def read(self, array: Array, index: Index, mask: Mask | None) -> Element:
        """Load the element of an array at an index; nothing outside of it is ever touched.

        Of an array without elements, which can be asked for by indices from memory only, it is 0.
        """
        return self.read_place(array, offset(array.shape, index), mask)

    def read_place(self, array: Array, place: Affine, mask: Mask | None) -> Element:
        """Load the element of an array that so many others lie before, as `read` does."""
        if not array.shape.element_count:
            return Element((memory.constant(array.shape.element_type, 0),), 0)
        self.reads.append((array, place))
        level = max(place.level, 0 if mask is None else mask.level)
        value: Value = self.scopes.once(
            ("read", array, place, mask), level, lambda: self.memory.load(self, array, place, mask)
        )
        return Element((value,), self.scopes.placed(level))

    def store(self, array: Array, index: Index, value: Value, mask: Mask | None) -> None:
        """Store a value where an element lies; lanes that a mask leaves out are not touched."""
        place = offset(array.shape, index)
        self.reads.append((array, place))
        self.writes.append((array, place))
        self.memory.store(self, array, place, value, mask)

    def address(self, array: Array, place: Affine) -> str:
        """Return the address of an element, of lane 0 where lanes differ."""
        return element_address(self.function, array, self.indices.scalar(place))


def _wanted(request: Request) -> Request:
    """The request without its mask where one element is asked for, the same in all lanes.

    It is a known one, or the first lane wants it for certain. What pieces of an array have in
    common is then computed once, and not once for each piece.
    """
    mask = request.mask
    if mask is None or not (
        _is_known_place(request.instruction.shape, request.at)
        or (mask.holds_first and not any(x.varies for x in request.at))
    ):
        return request
    frame: CallFrame | None = request.frame
    while frame is not None:
        if frame.elements:  # They may differ from lane to lane, and end loops in some only.
            return request
        frame = frame.parent
    return request._replace(mask=None)


def _is_known_place(shape: Shape, index: Index) -> bool:
    """Whether an index has no variables and lies within an array."""
    if not shape.is_array or len(index) != shape.rank:
        return False
    places = zip(index, shape.dimensions, strict=True)
    return all(not x.terms and 0 <= x.constant < size for x, size in places)


def _at_once(element: Element) -> Rule:
    yield from ()
    return element
