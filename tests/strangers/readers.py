"""Readers of files, each with files to begin with and a function that reads one in a folder."""

from __future__ import annotations

import hashlib
import json
import struct
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from tests.frontend.proto_cases import CASES
from tests.frontend.tensorflow.test_frozen_graph import perceptron
from tests.frontend.tflite.making import Graph, model_bytes

import lowtide
from lowtide import compiler
from lowtide.certificate import checker
from lowtide.certificate.document import certificate_text, certify
from lowtide.client.executable import stored
from lowtide.frontend.graph_json import read_graph_json
from lowtide.frontend.hlo_proto import write_hlo_module_with_config
from lowtide.frontend.packing_csv import read_packing_csv
from lowtide.frontend.plan_files import plan_beside, read_plan
from lowtide.ir.printer import COMPLETE, to_text
from lowtide.planning import TensorUsageRecord, assign_offsets
from lowtide.report.plan_document import plan_document, self_contained
from lowtide.runtime.cpu import serial
from lowtide.xla.dumps.buffer_assignment import buffer_assignment_text

SMALL: Final = """HloModule small, is_scheduled=true

ENTRY e {
  x = f32[64] parameter(0)
  y = f32[64] negate(x)
  z = f32[64] exponential(y)
  ROOT r = f32[64] add(y, z)
}
"""
PACKING: Final = b"id,lower,upper,size,alignment\n0,0,3,16,4\n1,1,4,8,8\n2,3,9,24,1\n"
GRAPH: Final = {
    "name": "g",
    "source": "s",
    "notes": "n",
    "nodes": [
        {"name": "a", "opcode": "x", "seconds": 0.5, "scratch_bytes": 3, "control": []},
        {"name": "b", "opcode": "y", "seconds": 1.5, "scratch_bytes": 0, "control": [0]},
    ],
    "buffers": [{"bytes": 16, "producer": 0, "consumers": [1], "live_out": True, "may_reuse": []}],
}


@dataclass(frozen=True)
class Reader:
    """A reader: files to begin with, and what reads the bytes of one, in a folder of its own."""

    seeds: Callable[[], Iterator[bytes]]
    read: Callable[[bytes, Path], object]


def _module_in(suffix: str) -> Callable[[bytes, Path], object]:
    def read(data: bytes, folder: Path) -> object:
        file = folder / f"model{suffix}"
        file.write_bytes(data)
        module = lowtide.read(file)
        lowtide.verify(module)
        return module

    return read


# -- seeds -----------------------------------------------------------------------------------------


def _texts() -> Iterator[bytes]:
    yield SMALL.encode()
    for text in CASES.values():
        yield text.encode()


def _protos() -> Iterator[bytes]:
    for text in CASES.values():
        yield write_hlo_module_with_config(lowtide.parse_hlo(text))


def _onnx() -> Iterator[bytes]:
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    stored_apart = TensorProto(name="v", data_type=1, dims=[4], data_location=1)
    for key, value in {"location": "data.bin", "offset": "8", "length": "16"}.items():
        stored_apart.external_data.add(key=key, value=value)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.float32([1, 2]), "s"),
        numpy_helper.from_array(np.int64([0, 3])),
        [4],
    )
    x = helper.make_tensor_value_info("x", 1, [2, 3])
    y = helper.make_tensor_value_info("y", 1, None)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Add", ["m", "v"], ["a"]),
        helper.make_node("Add", ["a", "s"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [x], [y], [weights, stored_apart])
    graph.sparse_initializer.append(sparse)
    yield helper.make_model(graph, ir_version=8).SerializeToString()


def _read_onnx(data: bytes, folder: Path) -> object:
    (folder / "data.bin").write_bytes(bytes(range(8)) * 8)
    return _module_in(".onnx")(data, folder)


def _lite() -> Iterator[bytes]:
    graph = Graph()
    x = graph.given((1, 4))
    w = graph.constant([[1.0, 2, 3, 4], [5, 6, 7, 8]])
    y = graph.op("FULLY_CONNECTED", [x, w], (1, 2))
    graph.outputs.append(graph.op("SOFTMAX", [y], (1, 2), {0: 1.0}))
    yield model_bytes(graph)


def _graph_defs() -> Iterator[bytes]:
    yield perceptron().SerializeToString()


@cache
def _planned() -> Any:
    return compiler.plan(lowtide.parse_hlo(SMALL), compiler.PlanOptions("input"))


def _plans() -> Iterator[bytes]:
    document = self_contained(plan_document(_planned().assignment), _planned().module)
    yield json.dumps(document).encode()


def _read_plan(data: bytes, folder: Path) -> object:
    (folder / "plan.json").write_bytes(data)
    return read_plan(str(folder / "plan.json"))


def _certificates() -> Iterator[bytes]:
    records = [TensorUsageRecord(100, 0, 1), TensorUsageRecord(50, 1, 2)]
    yield certificate_text(certify(assign_offsets(records))).encode()


def _dumps() -> Iterator[bytes]:
    yield buffer_assignment_text(_planned().module, _planned().assignment).encode()


def _read_dump(data: bytes, folder: Path) -> object:
    dump = folder / "dump"
    dump.mkdir(exist_ok=True)
    stem = "module_0001.small.cpu_after_optimizations"
    (dump / f"{stem}.txt").write_text(to_text(_planned().module, COMPLETE))
    (dump / f"{stem}-buffer-assignment.txt").write_bytes(data)
    module = lowtide.read(dump)
    beside = plan_beside(str(dump / f"{stem}.txt"))
    return read_plan(beside, module) if beside else None


# -- stored programs: the sums over what was changed are right, as those of a bad maker would be ---

_HEAD: Final = 8


def _programs() -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program"
        file.write_bytes(lowtide.compile(lowtide.parse_hlo(SMALL)).serialize())
        yield file.read_bytes()


def _read_program(data: bytes, folder: Path) -> object:
    return stored.open_program(_with_sums(data), None)


def _with_sums(data: bytes) -> bytes:
    end = stored._SUM_END
    if len(data) > end + _HEAD:
        (length,) = struct.unpack_from("<Q", data, end)
        inner = end + _HEAD + length
        start = inner + serial._START
        if start < len(data):
            right = hashlib.sha256(data[start:]).digest()
            data = data[: start - len(right)] + right + data[start:]
    return data[: end - 32] + hashlib.sha256(data[end:]).digest() + data[end:]


READERS: Final = {
    "HLO text": Reader(_texts, _module_in(".hlo")),
    "HLO protobuf": Reader(_protos, _module_in(".hlo.pb")),
    "ONNX": Reader(_onnx, _read_onnx),
    "TFLite": Reader(_lite, _module_in(".tflite")),
    "GraphDef": Reader(_graph_defs, _module_in(".pb")),
    "any file": Reader(lambda: (x for f in (_onnx, _lite, _protos) for x in f()), _module_in("")),
    "stored program": Reader(_programs, _read_program),
    "plan": Reader(_plans, _read_plan),
    "certificate": Reader(_certificates, lambda data, folder: checker.check(data)),
    "dump directory": Reader(_dumps, _read_dump),
    "packing": Reader(lambda: iter([PACKING]), lambda data, folder: read_packing_csv(data)),
    "memory graph": Reader(
        lambda: iter([json.dumps(GRAPH).encode()]), lambda data, folder: read_graph_json(data)
    ),
}
"""By their names in the table of docs/trust.md."""
