"""TFLite models written by hand: tensors, operators, and the tables around them."""

import struct
from dataclasses import dataclass, field

import numpy as np

from lowtide.frontend.tflite.model import TYPE_BITS
from lowtide.frontend.tflite.operator_names import OPERATOR_NAMES
from lowtide.micro.prefix import Prefix, Scalar

TYPES = {
    "float32": "FLOAT32",
    "int32": "INT32",
    "uint8": "UINT8",
    "int64": "INT64",
    "bool": "BOOL",
    "int16": "INT16",
    "int8": "INT8",
    "float16": "FLOAT16",
    "uint32": "UINT32",
    "complex64": "COMPLEX64",
    "resource": "RESOURCE",
}
OPTION_TABLES = (
    *("CONV_2D", "DEPTHWISE_CONV_2D", "CONCAT_EMBEDDINGS", "LSH_PROJECTION", "AVERAGE_POOL_2D"),
    *("SVDF", "RNN", "FULLY_CONNECTED", "SOFTMAX", "CONCATENATION", "ADD", "L2_NORMALIZATION"),
    *("LOCAL_RESPONSE_NORMALIZATION", "LSTM", "RESIZE_BILINEAR", "CALL", "RESHAPE", "SKIP_GRAM"),
    *("SPACE_TO_DEPTH", "EMBEDDING_LOOKUP_SPARSE", "MUL", "PAD", "GATHER", "BATCH_TO_SPACE_ND"),
    *("SPACE_TO_BATCH_ND", "TRANSPOSE", "MEAN", "SUB", "DIV", "SQUEEZE"),
    *("UNIDIRECTIONAL_SEQUENCE_RNN", "STRIDED_SLICE", "EXP", "TOPK_V2", "SPLIT", "LOG_SOFTMAX"),
    *("CAST", "DEQUANTIZE", "MAXIMUM", "ARG_MAX", "LESS", "NEG", "PADV2", "GREATER"),
    *("GREATER_EQUAL", "LESS_EQUAL", "SELECT", "SLICE", "TRANSPOSE_CONV", "SPARSE_TO_DENSE"),
    *("TILE", "EXPAND_DIMS", "EQUAL", "NOT_EQUAL", "SHAPE", "POW", "ARG_MIN", "FAKE_QUANT", "PACK"),
    *("LOGICAL_OR", "ONE_HOT", "LOGICAL_AND", "LOGICAL_NOT", "UNPACK", "FLOOR_DIV", "SQUARE"),
    *("ZEROS_LIKE", "FILL", "BIDIRECTIONAL_SEQUENCE_LSTM", "BIDIRECTIONAL_SEQUENCE_RNN"),
    *("UNIDIRECTIONAL_SEQUENCE_LSTM", "FLOOR_MOD", "RANGE", "RESIZE_NEAREST_NEIGHBOR"),
    *("LEAKY_RELU", "SQUARED_DIFFERENCE", "MIRROR_PAD", "ABS", "SPLIT_V", "UNIQUE", "REVERSE_V2"),
    *("ADD_N", "GATHER_ND", "COS", "WHERE", "RANK", "REVERSE_SEQUENCE", "MATRIX_DIAG", "QUANTIZE"),
    *("MATRIX_SET_DIAG", "HARD_SWISH", "IF", "WHILE", "DEPTH_TO_SPACE", "NON_MAX_SUPPRESSION_V4"),
    *("NON_MAX_SUPPRESSION_V5", "SCATTER_ND", "SELECT_V2", "DENSIFY", "SEGMENT_SUM"),
    *("BATCH_MATMUL", "CUMSUM", "CALL_ONCE", "BROADCAST_TO", "RFFT2D", "CONV_3D", "HASHTABLE"),
    *("HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE", "VAR_HANDLE", "READ_VARIABLE"),
    *("ASSIGN_VARIABLE", "RANDOM_UNIFORM", "BUCKETIZE", "GELU", "DYNAMIC_UPDATE_SLICE"),
    *("UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"),
    *("UNSORTED_SEGMENT_SUM", "ATAN2", "SIGN", "BITCAST", "BITWISE_XOR", "RIGHT_SHIFT"),
)
"""Operators by the numbers of the tables of their options, from 1 on."""

OPTIONS = {
    **{name: number for number, name in enumerate(OPTION_TABLES, 1)},
    "MAX_POOL_2D": 5,
    "L2_POOL_2D": 5,
    "MINIMUM": 39,
    "CONV_3D_TRANSPOSE": 106,
    **dict.fromkeys(
        ("SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"), 27
    ),
}
SECOND_TABLES = (
    *("CONCATENATE", "BROADCAST_IN_DIM", "SLICE", "CONVOLUTION", "CUSTOM_CALL", "REDUCE"),
    *("SCATTER", "COMPARE", "DYNAMIC_SLICE", "PAD", "IOTA", "DOT_GENERAL", "REDUCE_WINDOW"),
    *("SORT", "WHILE", "GATHER", "TRANSPOSE", "DILATE", "RNG_BIT_GENERATOR"),
)
SECOND = {f"STABLEHLO_{name}": number for number, name in enumerate(SECOND_TABLES, 1)}
SECOND |= {"REDUCE_WINDOW": 20, "STABLEHLO_COMPOSITE": 21, "STABLEHLO_SHIFT_LEFT": 22}
"""Operators whose options stand in the second table, by its numbers."""


@dataclass(frozen=True)
class Vector:
    """An option that is a vector of numbers."""

    values: tuple
    dtype: str = "<i4"


@dataclass(frozen=True)
class Text:
    """An option that is text."""

    value: str


def number(value):
    """A field of 32 bits; floats by their bits."""
    if isinstance(value, float):
        return Scalar(struct.unpack("<I", struct.pack("<f", value))[0])
    return Scalar(int(value))


@dataclass
class Graph:
    """A subgraph under construction; tensors are known by their numbers."""

    tensors: list = field(default_factory=list)
    operators: list = field(default_factory=list)
    inputs: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    variables: set = field(default_factory=set)
    between: dict = field(default_factory=dict)
    signatures: dict = field(default_factory=dict)
    """Shapes with -1 for sizes that are known when the model runs, by tensor."""

    def tensor(self, shape, dtype="float32", scale=(), zero=(), axis=0, data=None):
        """A tensor of a shape."""
        quantization = (np.atleast_1d(scale), np.atleast_1d(zero), axis) if np.size(scale) else None
        self.tensors.append((tuple(shape), dtype, data, quantization))
        return len(self.tensors) - 1

    def state(self, shape, dtype="float32", scale=(), zero=()):
        """A tensor that lasts from one call to the next."""
        self.variables.add(self.tensor(shape, dtype, scale, zero))
        return len(self.tensors) - 1

    def constant(self, values, dtype="float32", scale=(), zero=(), axis=0):
        """A tensor with values."""
        array = np.asarray(values, dtype)
        return self.tensor(array.shape, dtype, scale, zero, axis, array)

    def given(self, shape, dtype="float32", scale=(), zero=()):
        """An input."""
        self.inputs.append(self.tensor(shape, dtype, scale, zero))
        return self.inputs[-1]

    def ops(self, name, inputs, made, options=None, between=()):
        """An operator of any number of outputs, which are tensors that there are.

        `between` are tensors whose scales and zero points say how values inside it are kept.
        """
        self.between[len(self.operators)] = list(between)
        self.operators.append((name, list(inputs), list(made), options or {}))
        return made

    def op(self, name, inputs, shape, options=None, dtype="float32", scale=(), zero=()):
        """An operator of one output; options are numbers by their fields."""
        made = self.tensor(shape, dtype, scale, zero)
        self.operators.append((name, list(inputs), [made], options or {}))
        return made


def model_bytes(*graphs):
    """The bytes of a model of these subgraphs."""
    codes = list(dict.fromkeys([x[0] for g in graphs for x in g.operators]))
    prefix = Prefix(b"TFL3")
    prefix.table("root", {0: Scalar(3), 1: "codes", 2: "graphs", 4: "buffers"})
    prefix.vector("codes", [f"code{i}" for i in range(len(codes))])
    for i, name in enumerate(codes):
        custom = name.startswith("CUSTOM:")
        code = OPERATOR_NAMES.index("CUSTOM" if custom else name)
        fields = {0: Scalar(min(code, 127)), 2: Scalar(1), 3: Scalar(code)}
        prefix.table(f"code{i}", fields | ({1: f"code{i}.name"} if custom else {}))
        if custom:
            prefix.content(f"code{i}.name", name.partition(":")[2].encode())
    prefix.vector("graphs", [f"g{i}" for i in range(len(graphs))])
    buffers = [b""]
    for i, graph in enumerate(graphs):
        prefix.table(f"g{i}", {x: f"g{i}.{x}" for x in range(5)})
        _add_graph(prefix, f"g{i}", graph, codes, buffers)
    prefix.vector("buffers", [f"buffer{i}" for i in range(len(buffers))])
    for i, content in enumerate(buffers):
        prefix.table(f"buffer{i}", {0: f"data{i}"} if content else {})
        if content:
            prefix.content(f"data{i}", content, alignment=16)
    return prefix.before(b"")


def _add_graph(prefix, at, graph, codes, buffers):
    prefix.vector(f"{at}.0", [f"{at}.t{i}" for i in range(len(graph.tensors))])
    prefix.content(f"{at}.1", np.array(graph.inputs, "<i4").tobytes(), 4)
    prefix.content(f"{at}.2", np.array(graph.outputs, "<i4").tobytes(), 4)
    prefix.vector(f"{at}.3", [f"{at}.o{i}" for i in range(len(graph.operators))])
    prefix.content(f"{at}.4", b"main")
    for i, (shape, dtype, data, quantization) in enumerate(graph.tensors):
        here = f"{at}.t{i}"
        code = list(TYPE_BITS).index(TYPES[dtype])
        fields = {0: f"{here}.s", 1: Scalar(code), 2: Scalar(0), 3: f"{here}.n"}
        if data is not None:
            fields[2] = Scalar(len(buffers))
            buffers.append(data.tobytes())
        if quantization is not None:
            fields[4] = f"{here}.q"
        if i in graph.variables:
            fields[5] = Scalar(1)
        signature = graph.signatures.get(i)
        if signature is not None:
            fields[7] = f"{here}.g"
        prefix.table(here, fields)
        if signature is not None:
            prefix.content(f"{here}.g", np.array(signature, "<i4").tobytes(), 4)
        prefix.content(f"{here}.s", np.array(shape, "<i4").tobytes(), 4)
        prefix.content(f"{here}.n", f"tensor {i}".encode())
        if quantization is not None:
            scales, zeros, axis = quantization
            prefix.table(f"{here}.q", {2: f"{here}.scale", 3: f"{here}.zero", 6: Scalar(axis)})
            prefix.content(f"{here}.scale", np.array(scales, "<f4").tobytes(), 4)
            prefix.content(f"{here}.zero", np.array(zeros, "<i8").tobytes(), 8, alignment=8)
    for i, (name, inputs, outputs, options) in enumerate(graph.operators):
        here = f"{at}.o{i}"
        fields = {0: Scalar(codes.index(name)), 1: f"{here}.i", 2: f"{here}.u"}
        if isinstance(options, bytes):
            fields[5] = f"{here}.p"
        elif name in SECOND:
            fields |= {11: Scalar(SECOND[name]), 12: f"{here}.p"}
        elif name in OPTIONS:
            fields |= {3: Scalar(OPTIONS[name]), 4: f"{here}.p"}
        between = graph.between.get(i)
        if between:
            fields[8] = f"{here}.b"
        prefix.table(here, fields)
        if between:
            prefix.content(f"{here}.b", np.array(between, "<i4").tobytes(), 4)
        prefix.content(f"{here}.i", np.array(inputs, "<i4").tobytes(), 4)
        prefix.content(f"{here}.u", np.array(outputs, "<i4").tobytes(), 4)
        if isinstance(options, bytes):
            prefix.content(f"{here}.p", options)
        elif f"{here}.p" in fields.values():
            _add_options(prefix, f"{here}.p", options)


def _add_options(prefix, at, options):
    is_referred = {x: isinstance(y, Vector | Text) for x, y in options.items()}
    fields = {x: f"{at}.{x}" if is_referred[x] else number(y) for x, y in options.items()}
    prefix.table(at, fields)
    for x, y in options.items():
        if isinstance(y, Text):
            prefix.content(f"{at}.{x}", y.value.encode())
        elif isinstance(y, Vector):
            data = np.array(y.values, y.dtype)
            prefix.content(f"{at}.{x}", data.tobytes(), data.itemsize, alignment=8)
