"""Shapes and layouts: the type of each value. Immutable; shapes are interned."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, final
from weakref import WeakValueDictionary

from lowtide.ir.element_type import ElementType
from lowtide.records import dataclass

ShapeIndex = tuple[int, ...]
"""A path into a tuple: `()` is the whole value, `(1, 0)` element 0 of element 1."""

UNBOUNDED: Final = -1
"""The size of a dimension without a bound, written `?`."""


def index_text(index: ShapeIndex) -> str:
    """Return a shape index as XLA prints it: `{}`, `{1,0}`."""
    return f"{{{','.join(map(str, index))}}}"


@dataclass(frozen=True, slots=True)
class DimensionLevel:
    """Storage of one dimension in a sparse layout: `D`, `C`, `S` or `H`, with marks `+` and `~`."""

    kind: str
    unique: bool = True
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class SplitConfig:
    """The places at which one dimension is split between memories: `dimension:index,index`."""

    dimension: int
    split_indices: tuple[int, ...]

    def __str__(self) -> str:
        return f"({self.dimension}:{','.join(map(str, self.split_indices))})"


HOST_MEMORY: Final = 5
"""The memory space of arrays that live with the host and take no device memory."""

COMBINE: Final = -(2**63)
"""The tile size written `*`: this dimension is combined with the next more minor one."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The order in which an array lies in memory.

    `minor_to_major` lists dimension numbers from the fastest varying one to the slowest.
    `element_size_in_bits` is 0 for the natural size of the element type; `memory_space` is 0 for
    the default memory, 5 for the host's. `dimension_levels` are read but, as in XLA, not printed.
    """

    minor_to_major: tuple[int, ...] = ()
    dimension_levels: tuple[DimensionLevel, ...] = ()
    tiles: tuple[tuple[int, ...], ...] = ()
    tail_padding_alignment: int = 1
    index_primitive_type: ElementType | None = None
    pointer_primitive_type: ElementType | None = None
    element_size_in_bits: int = 0
    memory_space: int = 0
    split_configs: tuple[SplitConfig, ...] = ()
    physical_shape: Shape | None = None
    dynamic_metadata_prefix_bytes: int = 0

    def __str__(self) -> str:
        extras = self._extras()
        order = ",".join(map(str, self.minor_to_major))
        return f"{{{order}:{extras}}}" if extras else f"{{{order}}}"

    def _extras(self) -> str:
        parts = []
        if self.tiles:
            parts.append("T" + "".join(map(_tile_text, self.tiles)))
        if self.tail_padding_alignment != 1:
            parts.append(f"L({self.tail_padding_alignment})")
        if self.index_primitive_type is not None:
            parts.append(f"#({self.index_primitive_type.value})")
        if self.pointer_primitive_type is not None:
            parts.append(f"*({self.pointer_primitive_type.value})")
        if self.element_size_in_bits:
            parts.append(f"E({self.element_size_in_bits})")
        if self.memory_space:
            parts.append(f"S({self.memory_space})")
        if self.split_configs:
            parts.append("SC" + "".join(map(str, self.split_configs)))
        if self.physical_shape is not None:
            parts.append(f"P({self.physical_shape})")
        if self.dynamic_metadata_prefix_bytes:
            parts.append(f"M({self.dynamic_metadata_prefix_bytes})")
        return "".join(parts)


def _tile_text(tile: tuple[int, ...]) -> str:
    return f"({','.join(['*' if size == COMBINE else str(size) for size in tile])})"


def major_to_minor(rank: int) -> Layout:
    """Return the default layout of `rank` dimensions: row major."""
    layout = _DEFAULT_LAYOUTS.get(rank)
    if layout is None:
        layout = _DEFAULT_LAYOUTS[rank] = Layout(tuple(range(rank - 1, -1, -1)))
    return layout


_DEFAULT_LAYOUTS: dict[int, Layout] = {}


@final
class Shape:
    """The type of a value, e.g. `f32[8,128]{1,0}` or `(f32[2], token[])`.

    Get shapes from `array_shape`, `tuple_shape`, `buffer_shape`, `TOKEN` and `OPAQUE` only. They
    return one object per distinct shape, so two shapes are equal exactly when they are the same
    object, layouts included; `compatible` compares without layouts.

    Fields: `element_type`; `dimensions`, sizes or upper bounds (`UNBOUNDED` where there is none);
    `dynamic`, one flag per dimension or `()` where all are static; `layout`, None where unknown
    and for shapes that are not arrays; `tuple_shapes`, the elements of a tuple or the one array of
    a buffer shape.

    Worked out once: `rank`, the number of dimensions, 0 for shapes that are not arrays; `is_array`
    (a scalar is an array of rank 0), `is_tuple`, and `is_token` for what only orders side effects;
    `element_count`, the number of elements of an array at its upper bounds, 1 for a scalar.
    """

    __slots__ = (
        "__weakref__",
        "_nbytes",
        "_static",
        "_text",
        "_without_layout",
        "dimensions",
        "dynamic",
        "element_count",
        "element_type",
        "is_array",
        "is_token",
        "is_tuple",
        "layout",
        "rank",
        "tuple_shapes",
    )

    element_type: ElementType
    dimensions: tuple[int, ...]
    dynamic: tuple[bool, ...]
    layout: Layout | None
    tuple_shapes: tuple[Shape, ...]
    rank: int
    is_array: bool
    is_tuple: bool
    is_token: bool
    element_count: int
    _text: str | None
    _without_layout: Shape | None
    _static: Shape | None
    _nbytes: int | None

    def __copy__(self) -> Shape:
        return self

    def __deepcopy__(self, memo: object) -> Shape:
        return self

    def __reduce__(self) -> tuple[object, ...]:
        fields = (self.element_type, self.dimensions, self.dynamic, self.layout, self.tuple_shapes)
        return (_intern, fields)

    @property
    def is_buffer(self) -> bool:
        """Whether the value is a mutable buffer `b(...)`; its array is `tuple_shapes[0]`."""
        return self.element_type is ElementType.BUFFER

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension, here or in an element, is dynamic."""
        return any(self.dynamic) or any(x.is_dynamic for x in self.tuple_shapes)

    @property
    def memory_space(self) -> int:
        """The memory that an array lies in, 0 for the usual one and for all that is no array."""
        return 0 if self.layout is None else self.layout.memory_space

    @property
    def nbytes(self) -> int:
        """Bytes of an array (packed where the layout has an element size); 0 for a token.

        A tuple takes 8 bytes per element for its index table, its contents not included; an
        opaque value takes 8. Unbounded dimensions count as 0. Tiling and padding are left out.
        """
        if self._nbytes is None:
            self._nbytes = self._count_bytes()
        return self._nbytes

    def _count_bytes(self) -> int:
        if self.is_tuple:
            return 8 * len(self.tuple_shapes)
        if self.element_type is ElementType.OPAQUE:
            return 8
        if self.is_buffer:
            return self.tuple_shapes[0].nbytes
        if UNBOUNDED in self.dimensions:
            return 0
        count = math.prod(self.dimensions)
        if self.layout is not None and self.layout.element_size_in_bits:
            return (count * self.layout.element_size_in_bits + 7) // 8
        return count * self.element_type.nbytes

    @property
    def leaf_nbytes(self) -> int:
        """Bytes of all leaves, index tables of tuples not included."""
        return sum(leaf.nbytes for _, leaf in self.leaves())

    def subshapes(self) -> Iterator[tuple[ShapeIndex, Shape]]:
        """Yield (index, shape) of this shape and all elements, tuples before their elements."""
        stack: list[tuple[ShapeIndex, Shape]] = [((), self)]
        while stack:
            index, shape = stack.pop()
            yield index, shape
            if shape.is_tuple:
                elements = shape.tuple_shapes
                stack.extend([((*index, i), elements[i]) for i in reversed(range(len(elements)))])

    def leaves(self) -> Iterator[tuple[ShapeIndex, Shape]]:
        """Yield (index, shape) of the subshapes which are not tuples, in depth-first order."""
        if not self.is_tuple:
            yield (), self
            return
        for index, shape in self.subshapes():
            if not shape.is_tuple:
                yield index, shape

    def at(self, index: ShapeIndex) -> Shape:
        """Return the subshape at `index`; raise IndexError where there is none."""
        shape = self
        for i in index:
            if not shape.is_tuple or not 0 <= i < len(shape.tuple_shapes):
                raise IndexError(f"{self} has no element at index {list(index)}")
            shape = shape.tuple_shapes[i]
        return shape

    def with_leaves(self, change: Callable[[Shape], Shape]) -> Shape:
        """Return the shape with each leaf as `change` returns it; arrays of buffers are leaves."""
        if self.is_tuple:
            return tuple_shape([x.with_leaves(change) for x in self.tuple_shapes])
        if self.is_buffer:
            return buffer_shape(change(self.tuple_shapes[0]))
        return change(self)

    @property
    def physical_order(self) -> tuple[int, ...]:
        """The dimensions as they lie in memory, slowest first; row major without a layout."""
        return self.layout.minor_to_major[::-1] if self.layout else tuple(range(self.rank))

    def without_layout(self) -> Shape:
        """Return the same shape with no layout anywhere."""
        if self._without_layout is None:
            elements = tuple([x.without_layout() for x in self.tuple_shapes])
            fields = (self.element_type, self.dimensions, self.dynamic, None, elements)
            self._without_layout = _intern(*fields)
        return self._without_layout

    def with_default_layout(self) -> Shape:
        """Return the same shape with row-major layouts everywhere."""
        return self.with_leaves(_with_default_layout)

    def with_layout(self, layout: Layout | None) -> Shape:
        """Return the array shape with another layout."""
        return _intern(self.element_type, self.dimensions, self.dynamic, layout, ())

    def with_memory_space(self, space: int) -> Shape:
        """Return the array shape in another memory, row-major where it has no layout."""
        layout = self.layout or major_to_minor(self.rank)
        return self.with_layout(replace(layout, memory_space=space))

    def with_element_type(self, element_type: ElementType) -> Shape:
        """Return the array shape with another element type and its natural element size."""
        layout = self.layout
        if layout is not None and layout.element_size_in_bits:
            layout = replace(layout, element_size_in_bits=0)
        return _intern(element_type, self.dimensions, self.dynamic, layout, ())

    def static(self) -> Shape:
        """Return the same shape without layouts, each dynamic dimension fixed at its bound."""
        if self._static is None:
            elements = tuple([x.static() for x in self.tuple_shapes])
            self._static = _intern(self.element_type, self.dimensions, (), None, elements)
        return self._static

    def compatible(self, other: Shape) -> bool:
        """Whether both are the same but for layouts; a bounded size matches the same bound."""
        return self is other or self.static() is other.static()

    def text(self, *, layout: bool = True) -> str:
        """Return the HLO text of the shape, with or without layouts."""
        if not layout:
            return str(self.without_layout())
        return str(self)

    def __str__(self) -> str:
        if self._text is None:
            self._text = _shape_text(self)
        return self._text

    def __repr__(self) -> str:
        return f"<Shape {self}>"


def _with_default_layout(leaf: Shape) -> Shape:
    return leaf.with_layout(major_to_minor(leaf.rank)) if leaf.is_array else leaf


def _shape_text(shape: Shape) -> str:
    if shape.is_tuple:
        parts = []
        for i, element in enumerate(shape.tuple_shapes):
            mark = f"/*index={i}*/" if i and i % 5 == 0 else ""
            parts.append(f"{mark}{element}")
        return f"({', '.join(parts)})"
    if shape.is_buffer:
        return f"b({shape.tuple_shapes[0]})"
    sizes = ",".join(map(str, shape.dimensions))
    if shape.dynamic:
        sizes = ",".join(map(_dimension_text, shape.dimensions, shape.dynamic))
    layout = shape.layout
    suffix = ""
    if layout is not None and (shape.dimensions or layout != major_to_minor(0)):
        suffix = str(layout)
    return f"{shape.element_type.value}[{sizes}]{suffix}"


def _dimension_text(size: int, dynamic: bool) -> str:
    if size == UNBOUNDED:
        return "?"
    return f"<={size}" if dynamic else str(size)


_SHAPES: WeakValueDictionary[tuple[object, ...], Shape] = WeakValueDictionary()


def _intern(
    element_type: ElementType,
    dimensions: tuple[int, ...],
    dynamic: tuple[bool, ...],
    layout: Layout | None,
    tuple_shapes: tuple[Shape, ...],
) -> Shape:
    key = (element_type, dimensions, dynamic, layout, tuple_shapes)
    shape = _SHAPES.get(key)
    if shape is None:
        shape = Shape()
        shape.element_type = element_type
        shape.dimensions = dimensions
        shape.dynamic = dynamic
        shape.layout = layout
        shape.tuple_shapes = tuple_shapes
        shape.rank = len(dimensions)
        shape.is_array = layout is not None or element_type.is_array
        shape.is_tuple = element_type is ElementType.TUPLE
        shape.is_token = element_type is ElementType.TOKEN
        shape.element_count = math.prod(dimensions)
        shape._text = None
        shape._without_layout = None
        shape._static = None
        shape._nbytes = None
        _SHAPES[key] = shape
    return shape


def can_be_array(dimensions: Iterable[int], item_bytes: int) -> bool:
    """Return whether there can be an array of such sizes, whose elements take so many bytes.

    It takes fewer than 2**63 bytes. NumPy counts a size of 0 as 1 there, and so do file formats.
    """
    return math.prod([max(x, 1) for x in dimensions]) * max(item_bytes, 1) < 2**63


def array_shape(
    element_type: ElementType,
    dimensions: tuple[int, ...] = (),
    layout: Layout | None = None,
    dynamic: tuple[bool, ...] = (),
) -> Shape:
    """Return the interned array shape; without a layout it is row major."""
    if layout is None:
        layout = major_to_minor(len(dimensions))
    return _intern(element_type, dimensions, dynamic if any(dynamic) else (), layout, ())


def tuple_shape(elements: tuple[Shape, ...] | list[Shape]) -> Shape:
    """Return the interned tuple shape."""
    return _intern(ElementType.TUPLE, (), (), None, tuple(elements))


def buffer_shape(array: Shape) -> Shape:
    """Return the shape of a mutable buffer which holds `array`."""
    return _intern(ElementType.BUFFER, (), (), None, (array,))


TOKEN: Final = _intern(ElementType.TOKEN, (), (), None, ())
OPAQUE: Final = _intern(ElementType.OPAQUE, (), (), None, ())


@dataclass(frozen=True, slots=True)
class ProgramShape:
    """The type of a computation: the shapes and names of its parameters, and its result."""

    parameters: tuple[Shape, ...]
    result: Shape
    parameter_names: tuple[str, ...] = ()

    def with_default_layouts(self) -> ProgramShape:
        """Return the same type with row-major layouts everywhere."""
        parameters = tuple([x.with_default_layout() for x in self.parameters])
        return ProgramShape(parameters, self.result.with_default_layout(), self.parameter_names)

    def __str__(self) -> str:
        names = self.parameter_names or tuple([f"p{i}" for i in range(len(self.parameters))])
        parameters = [
            f"{name}: {shape.text(layout=False)}"
            for name, shape in zip(names, self.parameters, strict=True)
        ]
        return f"({', '.join(parameters)}) -> {self.result.text(layout=False)}"
