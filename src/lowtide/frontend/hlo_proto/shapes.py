"""Shapes, layouts and program shapes."""

from __future__ import annotations

from typing import Any, Final, final

from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals, permutation
from lowtide.frontend.hlo_proto.messages import new_message
from lowtide.ir.element_type import BY_NUMBER, ElementType
from lowtide.ir.shape import (
    COMBINE,
    OPAQUE,
    TOKEN,
    UNBOUNDED,
    DimensionLevel,
    Layout,
    ProgramShape,
    Shape,
    SplitConfig,
    array_shape,
    buffer_shape,
    can_be_array,
    major_to_minor,
    tuple_shape,
)

_UNBOUNDED_SIZE: Final = -(2**63)
_LEVELS: Final = {0: "D", 1: "C", 2: "S", 3: "H"}
_LEVEL_NUMBERS: Final = {kind: number for number, kind in _LEVELS.items()}


@final
class ShapeReader:
    """Reads shapes; remembers those which it has seen."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}

    def read(self, proto: Any) -> Shape:
        """Return the shape; raises FieldError."""
        key = proto.SerializeToString()
        shape = self._known.get(key)
        if shape is None:
            shape = self._known[key] = self._read(proto)
        return shape

    def read_field(self, message: Any, field: str) -> Shape:
        """Return the shape in a field of a message, which must be there."""
        if not message.HasField(field):
            raise FieldError("the shape is missing", field)
        try:
            return self.read(getattr(message, field))
        except FieldError as error:
            raise error.under(field) from None

    def read_list(self, protos: Any, field: str) -> tuple[Shape, ...]:
        """Return the shapes of a repeated field."""
        shapes = []
        for i, proto in enumerate(protos):
            try:
                shapes.append(self.read(proto))
            except FieldError as error:
                raise error.under(f"{field}[{i}]") from None
        return tuple(shapes)

    def program_shape(self, proto: Any) -> ProgramShape:
        """Return the program shape without parameter names."""
        parameters = self.read_list(proto.parameters, "parameters")
        return ProgramShape(parameters, self.read_field(proto, "result"))

    def _read(self, proto: Any) -> Shape:
        element_type = lookup(BY_NUMBER, proto.element_type, "element_type")
        if element_type is ElementType.TOKEN:
            return TOKEN
        if element_type is ElementType.OPAQUE:
            return OPAQUE
        if element_type.is_array:
            return self._array(proto, element_type)
        elements = self.read_list(proto.tuple_shapes, "tuple_shapes")
        if element_type is ElementType.TUPLE:
            return tuple_shape(elements)
        if len(elements) != 1 or not elements[0].is_array:
            raise FieldError("a buffer shape holds one array shape", "tuple_shapes")
        return buffer_shape(elements[0])

    def _array(self, proto: Any, element_type: ElementType) -> Shape:
        sizes = tuple(proto.dimensions)
        dynamic = tuple(proto.is_dynamic_dimension) or (False,) * len(sizes)
        if len(dynamic) != len(sizes):
            raise FieldError(
                f"expected {len(sizes)} flags, found {len(dynamic)}", "is_dynamic_dimension"
            )
        dimensions = _dimensions(sizes, dynamic, element_type.nbytes)
        if proto.HasField("layout"):
            try:
                layout = self._layout(proto.layout, len(sizes))
            except FieldError as error:
                raise error.under("layout") from None
            return array_shape(element_type, dimensions, layout, dynamic)
        return array_shape(element_type, dimensions, None, dynamic).without_layout()

    def _layout(self, proto: Any, rank: int) -> Layout:
        order = permutation(proto.minor_to_major, rank, "minor_to_major")
        present = {field.name for field, _ in proto.ListFields()}
        default = major_to_minor(rank)
        if present <= {"minor_to_major", "tail_padding_alignment_in_elements"}:
            alignment = proto.tail_padding_alignment_in_elements
            if order == default.minor_to_major and alignment in (0, 1):
                return default
        physical = self.read_field(proto, "physical_shape") if "physical_shape" in present else None
        return Layout(
            order,
            _levels(proto, rank),
            tuple([_tile(tile, f"tiles[{i}]") for i, tile in enumerate(proto.tiles)]),
            natural(proto.tail_padding_alignment_in_elements, "tail_padding_alignment_in_elements")
            or 1,
            _optional_type(proto, "index_primitive_type"),
            _optional_type(proto, "pointer_primitive_type"),
            natural(proto.element_size_in_bits, "element_size_in_bits", 2**16),
            natural(proto.memory_space, "memory_space"),
            tuple(
                [_split(x, rank, f"split_configs[{i}]") for i, x in enumerate(proto.split_configs)]
            ),
            physical,
            natural(
                proto.dynamic_shape_metadata_prefix_bytes, "dynamic_shape_metadata_prefix_bytes"
            ),
        )


def _dimensions(
    sizes: tuple[int, ...], dynamic: tuple[bool, ...], item_bytes: int
) -> tuple[int, ...]:
    dimensions: list[int] = []
    for i, (size, is_dynamic) in enumerate(zip(sizes, dynamic, strict=True)):
        if size == _UNBOUNDED_SIZE and is_dynamic:
            dimensions.append(UNBOUNDED)
            continue
        dimensions.append(natural(size, f"dimensions[{i}]"))
        if not can_be_array(dimensions, item_bytes):
            raise FieldError("the array takes more than 2**63 bytes", f"dimensions[{i}]")
    return tuple(dimensions)


def _levels(proto: Any, rank: int) -> tuple[DimensionLevel, ...]:
    if not proto.dim_level_types:
        return ()
    for field in ("dim_level_types", "dim_unique", "dim_ordered"):
        count = len(getattr(proto, field))
        if count != rank and (count or field == "dim_level_types"):
            raise FieldError(f"expected {rank} values, found {count}", field)
    unique = tuple(proto.dim_unique) or (True,) * rank
    ordered = tuple(proto.dim_ordered) or (True,) * rank
    kinds = [
        lookup(_LEVELS, x, f"dim_level_types[{i}]") for i, x in enumerate(proto.dim_level_types)
    ]
    return tuple(map(DimensionLevel, kinds, unique, ordered))


def _tile(proto: Any, path: str) -> tuple[int, ...]:
    sizes = tuple(proto.dimensions)
    for i, size in enumerate(sizes):
        if size != COMBINE:
            natural(size, f"{path}.dimensions[{i}]")
    return sizes


def _split(proto: Any, rank: int, path: str) -> SplitConfig:
    dimension = natural(proto.dimension, f"{path}.dimension", max(rank, 1))
    return SplitConfig(dimension, naturals(proto.split_indices, f"{path}.split_indices"))


def _optional_type(proto: Any, field: str) -> ElementType | None:
    number = getattr(proto, field)
    return lookup(BY_NUMBER, number, field) if number else None


# -- writing -----------------------------------------------------------------------------------


@final
class ShapeWriter:
    """Writes shapes; remembers the messages which it has made."""

    def __init__(self) -> None:
        self._known: dict[Shape, Any] = {}

    def write(self, shape: Shape, proto: Any) -> None:
        """Write a shape into a ShapeProto."""
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = new_message("ShapeProto")
            self._write(shape, known)
        proto.CopyFrom(known)

    def write_program_shape(self, shape: ProgramShape, proto: Any) -> None:
        """Write a program shape into a ProgramShapeProto."""
        for parameter in shape.parameters:
            self.write(parameter, proto.parameters.add())
        self.write(shape.result, proto.result)
        proto.parameter_names.extend(shape.parameter_names)

    def _write(self, shape: Shape, proto: Any) -> None:
        proto.element_type = shape.element_type.number
        for element in shape.tuple_shapes:
            self.write(element, proto.tuple_shapes.add())
        if not shape.element_type.is_array:
            return
        sizes = [_UNBOUNDED_SIZE if x == UNBOUNDED else x for x in shape.dimensions]
        proto.dimensions.extend(sizes)
        proto.is_dynamic_dimension.extend(shape.dynamic or [False] * len(sizes))
        if shape.layout is not None:
            self._write_layout(shape.layout, proto.layout)

    def _write_layout(self, layout: Layout, proto: Any) -> None:
        proto.minor_to_major.extend(layout.minor_to_major)
        proto.tail_padding_alignment_in_elements = layout.tail_padding_alignment
        proto.element_size_in_bits = layout.element_size_in_bits
        proto.memory_space = layout.memory_space
        proto.dynamic_shape_metadata_prefix_bytes = layout.dynamic_metadata_prefix_bytes
        for level in layout.dimension_levels:
            proto.dim_level_types.append(_LEVEL_NUMBERS[level.kind])
            proto.dim_unique.append(level.unique)
            proto.dim_ordered.append(level.ordered)
        for tile in layout.tiles:
            proto.tiles.add().dimensions.extend(tile)
        if layout.index_primitive_type is not None:
            proto.index_primitive_type = layout.index_primitive_type.number
        if layout.pointer_primitive_type is not None:
            proto.pointer_primitive_type = layout.pointer_primitive_type.number
        for split in layout.split_configs:
            proto.split_configs.add(dimension=split.dimension, split_indices=split.split_indices)
        if layout.physical_shape is not None:
            self.write(layout.physical_shape, proto.physical_shape)
