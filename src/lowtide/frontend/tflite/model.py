"""A TFLite model as it stands in its file: subgraphs of tensors and operators."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from lowtide.frontend.file_kinds import foreign_kind, looks_like_tflite
from lowtide.frontend.other_protobuf import refuse_other_protobuf
from lowtide.frontend.tflite.bundle import model_in
from lowtide.frontend.tflite.flatbuffer import FlatBytes, FlatTable
from lowtide.frontend.tflite.operator_names import OPERATOR_NAMES
from lowtide.ir.errors import InputError
from lowtide.ir.shape import can_be_array
from lowtide.records import dataclass

_MOST_BYTES: Final = 1 << 31
"""A tensor of more bytes is taken for damage: files and arenas have fewer."""

TYPE_BITS: Final[Mapping[str, int]] = {
    "FLOAT32": 32,
    "FLOAT16": 16,
    "INT32": 32,
    "UINT8": 8,
    "INT64": 64,
    "STRING": 0,
    "BOOL": 8,
    "INT16": 16,
    "COMPLEX64": 64,
    "INT8": 8,
    "FLOAT64": 64,
    "COMPLEX128": 128,
    "UINT64": 64,
    "RESOURCE": 32,
    "VARIANT": 0,
    "UINT32": 32,
    "UINT16": 16,
    "INT4": 4,
    "BFLOAT16": 16,
    "INT2": 2,
    "UINT4": 4,
    "FLOAT8_E4M3FN": 8,
    "FLOAT8_E5M2": 8,
}
"""The types of tensors in the order of their codes, and how many bits an element takes."""

_TYPES: Final = tuple(TYPE_BITS)


@dataclass(frozen=True, eq=False, slots=True)
class Quantization:
    """What numbers stand for: `scale * (number - zero point)`; without scales, what they are.

    Several scales are those of the elements along `axis`.
    """

    scales: npt.NDArray[np.float32]
    zero_points: npt.NDArray[np.int64]
    axis: int


@dataclass(frozen=True, eq=False, slots=True)
class LiteTensor:
    """A tensor; `data` are the bytes of a constant, None for any other.

    Those of a sparse one are what is kept, and `sparsity` says where it belongs.
    `signature` is the shape with -1 for sizes that may change.
    """

    number: int
    name: str
    type: str
    shape: tuple[int, ...]
    data: npt.NDArray[np.uint8] | None
    is_variable: bool
    quantization: Quantization
    signature: tuple[int, ...] = ()
    sparsity: FlatTable | None = None

    @property
    def nbytes(self) -> int:
        """The bytes of its elements."""
        return -(-prod(self.shape) * TYPE_BITS[self.type] // 8)


@dataclass(frozen=True, eq=False, slots=True)
class LiteOperator:
    """An operator: its name, the numbers of its tensors (-1: left out), and its options.

    Those of a custom one are bytes, a table in FlexBuffers' form or a structure of its own.
    """

    number: int
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    intermediates: tuple[int, ...]
    options: FlatTable | None
    custom_options: bytes = b""


@dataclass(frozen=True, eq=False, slots=True)
class LiteGraph:
    """Operators in the order in which they run, and the tensors between them."""

    name: str
    tensors: tuple[LiteTensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[LiteOperator, ...]


@dataclass(frozen=True, eq=False, slots=True)
class LiteSignature:
    """A name for a subgraph, and names for its inputs and outputs: numbers of tensors."""

    key: str
    graph: int
    inputs: Mapping[str, int]
    outputs: Mapping[str, int]


@dataclass(frozen=True, eq=False, slots=True)
class LiteModel:
    """A model: subgraphs, the first of which is what runs, and the file's metadata by name."""

    file: str
    source: FlatBytes
    graphs: tuple[LiteGraph, ...]
    metadata: Mapping[str, npt.NDArray[np.uint8]]
    signatures: tuple[LiteSignature, ...] = ()

    @property
    def main(self) -> LiteGraph:
        """The subgraph that runs."""
        return self.graphs[0]


def read_tflite(data: bytes, file: str = "") -> LiteModel:
    """Return the model in a file's bytes, or in an archive that has one model.

    Raises InputError with the path of the bad field, and for an archive of several models.
    """
    data = model_in(data, file)
    if len(data) < 8 or not looks_like_tflite(data):
        refuse_other_protobuf(data, file)
        what = "bytes 4 to 7 are not 'TFL3'" if data else "the file is empty"
        if kind := foreign_kind(data):
            what = f"this is {kind}"
        raise InputError(f"is no TFLite model: {what}", file=file)
    source = FlatBytes(data, file)
    return _Reader(source, source.root()).model()


class _Reader:
    """Reads the parts of a model, which refer to one another by numbers."""

    def __init__(self, source: FlatBytes, root: FlatTable) -> None:
        self.source, self.root = source, root
        self.buffers = [self.buffer(x) for x in root.table_list(4, "buffers")]
        self.names = root.tables(1, "operator_codes", self.operator_name)

    def model(self) -> LiteModel:
        """The model."""
        graphs = self.root.tables(2, "subgraphs", self.graph)
        if not graphs:
            raise self.source.error("there is no subgraph", "model.subgraphs")
        metadata = {}
        for entry in self.root.table_list(6, "metadata"):
            found = self.buffers[self.index(entry.scalar(1, "I", 0), self.buffers, entry.where)]
            metadata[entry.text(0, "name")] = found
        signatures = self.root.tables(7, "signature_defs", self.signature)
        for given in signatures:
            if given.graph >= len(graphs):
                where = f"model.signature_defs ({given.key})"
                raise self.source.error(f"subgraph {given.graph} of {len(graphs)}", where)
        return LiteModel(self.source.file, self.source, graphs, metadata, signatures)

    def signature(self, table: FlatTable) -> LiteSignature:
        """A signature."""
        maps = [
            {x.text(0, "name"): int(x.scalar(1, "I", 0)) for x in table.table_list(i, name)}
            for i, name in enumerate(("inputs", "outputs"))
        ]
        key, graph = table.text(2, "signature_key"), int(table.scalar(4, "I", 0))
        return LiteSignature(key, graph, maps[0], maps[1])

    def index(self, number: int, of: list[npt.NDArray[np.uint8]], where: str) -> int:
        """A number of one of some things; raises InputError for any other."""
        if not 0 <= number < len(of):
            raise self.source.error(f"buffer {number} of {len(of)}", where)
        return number

    def buffer(self, table: FlatTable) -> npt.NDArray[np.uint8]:
        """The bytes of a buffer, which may lie behind the flatbuffer."""
        offset, size = table.scalar(1, "Q", 0), table.scalar(2, "Q", 0)
        if offset > 1:
            self.source.check(offset, size, table.where)
            return np.frombuffer(self.source.data, np.uint8, size, offset)
        return table.array(0, "u1", "data")

    def operator_name(self, table: FlatTable) -> str:
        """The name of an operator; custom ones have "CUSTOM:" in front of theirs."""
        code = max(table.scalar(0, "b", 0), table.integer(3))
        if not 0 <= code < len(OPERATOR_NAMES):
            raise self.source.error(
                f"operator {code}; known are 0 to {len(OPERATOR_NAMES) - 1}", table.where
            )
        name = OPERATOR_NAMES[code]
        return f"CUSTOM:{table.text(1, 'custom_code')}" if name == "CUSTOM" else name

    def graph(self, table: FlatTable) -> LiteGraph:
        """A subgraph, whose operators refer to its tensors only."""
        found = table.table_list(0, "tensors")
        tensors = tuple([self.tensor(i, x) for i, x in enumerate(found)])
        operators = table.table_list(3, "operators")
        graph = LiteGraph(
            table.text(4, "name"),
            tensors,
            self.numbers(table, 1, "inputs", len(tensors)),
            self.numbers(table, 2, "outputs", len(tensors)),
            tuple([self.operator(i, x, len(tensors)) for i, x in enumerate(operators)]),
        )
        _check_order(graph, table)
        return graph

    def numbers(self, table: FlatTable, field: int, name: str, count: int) -> tuple[int, ...]:
        """Numbers of tensors."""
        found = table.integers(field, name)
        for number in found:
            if not -1 <= number < count:
                where = f"{table.where}.{name}"
                raise self.source.error(f"tensor {number}; there are {count}", where)
        return found

    def tensor(self, number: int, table: FlatTable) -> LiteTensor:
        """A tensor, a constant where its buffer has bytes."""
        code = table.scalar(1, "b", 0)
        if not 0 <= code < len(_TYPES):
            known = f"known are 0 to {len(_TYPES) - 1}"
            raise self.source.error(f"element type {code}; {known}", table.where)
        shape = table.integers(0, "shape")
        bits = TYPE_BITS[_TYPES[code]]
        is_large = prod(shape) * bits > 8 * _MOST_BYTES or not can_be_array(shape, bits // 8)
        if any(x < 0 for x in shape) or is_large:
            raise self.source.error(f"sizes {list(shape)}", f"{table.where}.shape")
        place = table.scalar(2, "I", 0)
        data = self.buffers[self.index(place, self.buffers, f"{table.where}.buffer")]
        tensor = LiteTensor(
            number,
            table.text(3, "name"),
            _TYPES[code],
            shape,
            data if len(data) else None,
            bool(table.scalar(5, "?", False)),
            _quantization(table.table(4, "quantization")),
            table.integers(7, "shape_signature") or shape,
            table.table(6, "sparsity"),
        )
        self.check_data(tensor, table)
        return tensor

    def check_data(self, tensor: LiteTensor, table: FlatTable) -> None:
        """Raise InputError for a constant of other than its bytes; strings have any."""
        if tensor.data is None or not TYPE_BITS[tensor.type]:
            return
        if len(tensor.data) != tensor.nbytes and not tensor.sparsity:
            raise self.source.error(
                f"{len(tensor.data)} bytes for {tensor.type}{list(tensor.shape)}, "
                f"which takes {tensor.nbytes}",
                f"{table.where}.buffer",
            )

    def operator(self, number: int, table: FlatTable, count: int) -> LiteOperator:
        """An operator."""
        code = table.scalar(0, "I", 0)
        if code >= len(self.names):
            where = f"{table.where}.opcode_index"
            raise self.source.error(f"operator code {code} of {len(self.names)}", where)
        options = table.table(4, "builtin_options") or table.table(12, "builtin_options_2")
        return LiteOperator(
            number,
            self.names[code],
            self.numbers(table, 1, "inputs", count),
            self.numbers(table, 2, "outputs", count),
            self.numbers(table, 8, "intermediates", count),
            options,
            table.array(5, "u1", "custom_options").tobytes(),
        )


def _quantization(table: FlatTable | None) -> Quantization:
    if table is None:
        return Quantization(np.zeros(0, np.float32), np.zeros(0, np.int64), 0)
    scales, zeros = table.array(2, "<f4", "scale"), table.array(3, "<i8", "zero_point")
    if len(scales) and len(zeros) not in (0, 1, len(scales)):
        text = f"{len(scales)} scales and {len(zeros)} zero points"
        raise table.source.error(text, table.where)
    return Quantization(scales, zeros, table.integer(6))


def _check_order(graph: LiteGraph, table: FlatTable) -> None:
    """Raise InputError where an operator reads what is not made yet, or makes what is there."""
    made = {*graph.inputs, -1}
    made |= {x.number for x in graph.tensors if x.data is not None or x.is_variable}
    made_later = {y for x in graph.operators for y in x.outputs} - {-1}
    for operator in graph.operators:
        where = f"{table.where}.operators[{operator.number}] ({operator.name})"
        for number in operator.inputs:
            if number not in made and number in made_later:
                raise table.source.error(f"reads tensor {number} before it is made", where)
        for number in operator.outputs:
            if number in made and number >= 0 and not graph.tensors[number].is_variable:
                raise table.source.error(f"makes tensor {number}, which is there already", where)
        made.update(operator.outputs)
