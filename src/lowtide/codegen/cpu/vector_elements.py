"""Elements of many lanes at once, on processors with vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Final

from lowtide.codegen.arrays import Array
from lowtide.codegen.cpu.division import division
from lowtide.codegen.cpu.strided import is_aligned, store_in_turn, strided
from lowtide.codegen.cpu.tiles import TransposedTile
from lowtide.codegen.elements.elements import ElementRule, Elements
from lowtide.codegen.elements.scalar import ScalarMemory
from lowtide.codegen.elements.table import rule_of
from lowtide.codegen.elements.values import Mask
from lowtide.codegen.elementwise import memory
from lowtide.codegen.indexing import Affine
from lowtide.codegen.value import Value, vector_type
from lowtide.ir import ElementType, Instruction, Opcode
from lowtide.llvm.function import Function
from lowtide.llvm.target import Target
from lowtide.records import dataclass
from lowtide.records.late import late_function

_WORD: Final = 4
"""The fewest bytes of elements that lie in registers as they lie in memory."""


@dataclass(eq=False, slots=True)
class VectorMemory:
    """Loads and stores of vectors: consecutive, some apart, in tiles, or anywhere.

    With `is_streaming` vectors are stored past the caches where addresses allow it. With
    `is_paired` those of bf16 have their even elements first, and no masks. `tile` is how elements
    are read that do not lie side by side along the lanes.
    """

    is_streaming: bool = False
    is_paired: bool = False
    tile: TransposedTile | None = None
    single: ScalarMemory = field(default_factory=ScalarMemory)

    def load(self, elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
        """Write the load of an element, or of one for each lane."""
        if not place.varies:
            return self.single.load(elements, array, place, mask)
        if place.lane_step == 1:
            if self.is_paired:
                return self.whole(
                    elements, array.shape.element_type, elements.address(array, place)
                )
            return consecutive(elements, array, place, mask)
        if self.tile is not None:
            found = self.tile.read(elements, array, place, mask)
            if found is not None:
                return found
        found = strided(elements, array, place, mask)
        return found or gathered(elements, array, place, mask)

    def store(
        self, elements: Elements, array: Array, place: Affine, value: Value, mask: Mask | None
    ) -> None:
        """Write the store of an element, or of one for each lane that a mask does not leave out."""
        if not place.varies:
            self.single.store(elements, array, place, value, mask)
            return
        fn, target, vectors = elements.function, elements.target, elements.vectors
        vector = value if value.lanes else vectors.splat(value)
        name = None if mask is None else vectors.mask_lanes(mask, elements.lanes)
        if place.lane_step == 1:
            streamed = self.is_streaming and name is None and is_aligned(vector, place)
            pointer = elements.address(array, place)
            self.keep(elements, vector, pointer, name, streamed=streamed)
            return
        indices, narrow = _places(elements, place)
        memory.scatter_store(fn, target, vector, array.pointer, indices, name, narrow=narrow)

    def whole(self, elements: Elements, type_: ElementType, pointer: str) -> Value:
        """Return the elements of all lanes from an address on, which no mask leaves out."""
        fn, target, lanes = elements.function, elements.target, elements.lanes
        if self.is_paired and type_ is ElementType.BF16:
            return memory.load_pairs(fn, target, pointer, lanes)
        return memory.load(fn, target, type_, pointer, lanes)

    def keep(
        self,
        elements: Elements,
        vector: Value,
        pointer: str,
        mask: str | None = None,
        *,
        streamed: bool = False,
    ) -> None:
        """Store lanes from an address on, all that no mask leaves out, as `whole` finds them."""
        fn, target = elements.function, elements.target
        if self.is_paired and vector.type is ElementType.BF16:
            memory.store_pairs(fn, target, vector, pointer, streamed=streamed)
        else:
            memory.store(fn, target, vector, pointer, mask, streamed=streamed)

    def store_in_turn(
        self,
        elements: Elements,
        array: Array,
        places: Sequence[Affine],
        values: Sequence[Value],
        mask: Mask | None,
    ) -> bool:
        """Store values that follow each other in memory in each lane; return whether they do."""
        streaming = self.is_streaming
        return store_in_turn(elements, array, places, values, mask, streaming=streaming)


def _rule_of(instruction: Instruction) -> ElementRule:
    """The rule of an instruction, where vectors may have a better one."""
    types = [x.shape.element_type for x in (instruction, *instruction.operands[:1])]
    if instruction.opcode is Opcode.CONVERT and types in _QUANTIZING:
        return _QUANTIZED
    return division if instruction.opcode is Opcode.DIVIDE else rule_of(instruction)


_QUANTIZING: Final = [[x, ElementType.F32] for x in (ElementType.S8, ElementType.U8)]
"""Types of a conversion to bytes and of what it converts."""

_QUANTIZED: Final = late_function("lowtide.codegen.cpu.quantizing", "RULES", Opcode.CONVERT)


def vector_elements(
    function: Function, target: Target, lanes: int, memory: VectorMemory | None = None
) -> Elements:
    """Return what writes elements into a function; vectors have so many lanes, 0 for none."""
    return Elements(function, target, lanes, _rule_of, memory or VectorMemory())


def consecutive(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    """Return elements that lie side by side."""
    found = None if mask is None else _of_whole(elements, array, place)
    if found is not None:
        return found
    pointer = elements.address(array, place)
    lanes = elements.lanes
    name = None if mask is None else elements.vectors.mask_lanes(mask, lanes)
    type_ = array.shape.element_type
    return memory.load(elements.function, elements.target, type_, pointer, lanes, name)


def _of_whole(elements: Elements, array: Array, place: Affine) -> Value | None:
    """The lanes of an array of at most one vector, from a known place on, zeros beyond its ends.

    It is None where the array is longer, or the place is not known.
    The array is loaded whole, so that it may lie in a register between steps of a loop: what a mask
    selects of a vector that reaches beyond its ends has to come from memory, behind its store.
    """
    count, type_ = array.shape.element_count, array.shape.element_type
    if not 1 <= count <= elements.lanes or type_.is_complex or memory.element_bytes(type_) < _WORD:
        return None
    first = elements.indices.scalar(place)
    if not isinstance(first, int):
        return None
    fn = elements.function
    if count == 1:
        return _of_one(elements, array, -first)
    whole = memory.load(fn, elements.target, type_, array.pointer, count)
    taken = [x if 0 <= x < count else count for x in range(first, first + elements.lanes)]
    name = fn.shuffle(whole.llvm_type, whole.name, "zeroinitializer", taken)
    return Value((name,), type_, elements.lanes)


def _of_one(elements: Elements, array: Array, lane: int) -> Value:
    """The only element of an array in a lane, zeros in the others; in all lanes beyond them."""
    fn, lanes = elements.function, elements.lanes
    one = memory.load(fn, elements.target, array.shape.element_type, array.pointer, 0)
    name = "zeroinitializer"
    if 0 <= lane < lanes:
        vector, place = vector_type(one.llvm_type, lanes), f"{one.llvm_type} {one.name}, i64 {lane}"
        name = fn.op(f"insertelement {vector} zeroinitializer, {place}")
    return Value((name,), one.type, lanes)


def gathered(elements: Elements, array: Array, place: Affine, mask: Mask | None) -> Value:
    """Return elements that lie anywhere in an array."""
    lanes = elements.lanes
    name = None if mask is None else elements.vectors.mask_lanes(mask, lanes)
    indices, narrow = _places(elements, place)
    type_, fn, target = array.shape.element_type, elements.function, elements.target
    return memory.gather(fn, target, type_, array.pointer, indices, lanes, name, narrow=narrow)


def _places(elements: Elements, place: Affine) -> tuple[str, str]:
    """The index of each lane, and the same in 32 bits where that is enough."""
    indices = elements.indices
    return indices.vector(place), indices.narrow_vector(place) if indices.is_narrow(place) else ""
