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
}
OPTIONS = {
    "CONV_2D": 1,
    "DEPTHWISE_CONV_2D": 2,
    "AVERAGE_POOL_2D": 5,
    "MAX_POOL_2D": 5,
    "FULLY_CONNECTED": 8,
    "SOFTMAX": 9,
    "CONCATENATION": 10,
    "ADD": 11,
    "RESHAPE": 17,
    "MUL": 21,
    "PAD": 22,
    "GATHER": 23,
    "TRANSPOSE": 26,
    "MEAN": 27,
    "SUB": 28,
    "DIV": 29,
    "STRIDED_SLICE": 32,
    "BATCH_MATMUL": 101,
}


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

    def tensor(self, shape, dtype="float32", scale=(), zero=(), axis=0, data=None):
        """A tensor of a shape."""
        quantization = (np.atleast_1d(scale), np.atleast_1d(zero), axis) if np.size(scale) else None
        self.tensors.append((tuple(shape), dtype, data, quantization))
        return len(self.tensors) - 1

    def constant(self, values, dtype="float32", scale=(), zero=(), axis=0):
        """A tensor with values."""
        array = np.asarray(values, dtype)
        return self.tensor(array.shape, dtype, scale, zero, axis, array)

    def given(self, shape, dtype="float32", scale=(), zero=()):
        """An input."""
        self.inputs.append(self.tensor(shape, dtype, scale, zero))
        return self.inputs[-1]

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
        code = OPERATOR_NAMES.index(name)
        prefix.table(f"code{i}", {0: Scalar(min(code, 127)), 2: Scalar(1), 3: Scalar(code)})
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
        prefix.table(here, fields)
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
        if name in OPTIONS:
            fields |= {3: Scalar(OPTIONS[name]), 4: f"{here}.p"}
        prefix.table(here, fields)
        prefix.content(f"{here}.i", np.array(inputs, "<i4").tobytes(), 4)
        prefix.content(f"{here}.u", np.array(outputs, "<i4").tobytes(), 4)
        if name in OPTIONS:
            prefix.table(f"{here}.p", {x: number(y) for x, y in options.items()})
