"""ONNX graphs beside ONNX's own reference evaluator."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module
from random import Random
from typing import Any, Final, final

import numpy as np
from tests.hunting.cells import Cell
from tests.hunting.coverage import CellCounts
from tests.hunting.families.lines import Document, LineFamily, compare, documents, drawn_array
from tests.hunting.families.onnx_drawing import MAKERS, GraphDraft
from tests.hunting.families.onnx_layers import LAYERS
from tests.hunting.family import HuntedCase
from tests.hunting.findings import Court, Judgement, Tell

from lowtide.ir.literal import Array

_OPSET: Final = 20

_MAKERS: Final = {**MAKERS, **LAYERS}


@final
class OnnxGraphs(LineFamily):
    """Graphs of up to ten nodes."""

    @property
    def tables(self) -> dict[str, tuple[Cell, ...]]:
        """The operators that are drawn by name."""
        return {"operator": tuple([("operator", "onnx", x) for x in _MAKERS])}

    def draw(self, seed: int, random: Random, counts: CellCounts) -> HuntedCase:
        """Return a graph with the operator that was seen least."""
        draft = GraphDraft(random)
        wanted = counts.least([x for row in self.tables.values() for x in row], random)[2]
        for operator in (*random.choices([*_MAKERS], k=random.randint(0, 4)), wanted):
            _MAKERS[operator](draft)
        for operator in random.choices([*_MAKERS], k=random.randint(0, 4)):
            _MAKERS[operator](draft)
        while not draft.operators:
            _MAKERS["Neg"](draft)
        named = {("operator", "onnx", x) for x, _ in draft.operators}
        typed = {("type", x, t) for x, t in draft.operators}
        return HuntedCase("\n".join(draft.lines), seed, frozenset({*named, *typed}))

    def judge(self, case: HuntedCase, tell: Tell) -> Judgement:
        """Return where a session gives other results than the reference evaluator."""
        court = Court(tell)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _judge(court, case)
        return court.judgement()


def _judge(court: Court, case: HuntedCase) -> None:
    lines = documents(case.text)
    model = court.ask("model", lambda: made_model(lines), is_ours=False)
    if model is None:
        return
    random = np.random.default_rng(case.conditions)
    feeds = {x["input"]: drawn_array(x["type"], x["sizes"], random) for x in lines if "input" in x}
    expected = court.ask("reference", lambda: _referenced(model, feeds), is_ours=False)
    if expected is None:
        return
    rounded = {y: x["rounded"] for x in lines if "node" in x for y in x["results"]}
    flags = [rounded[x.name] for x in model.graph.output]
    sessions = import_module("lowtide.onnx")
    for engine in ("reference", "native"):

        def run(engine: str = engine) -> list[Array]:
            options = {} if engine == "reference" else {"effort": "fast", "cache": False}
            session = sessions.InferenceSession(model, engine=engine, **options)
            return [np.asarray(x) for x in session.run(None, feeds)]

        got = court.ask(engine, run)
        if got is not None:
            compare(court, engine, got, expected, flags)


def made_model(lines: Sequence[Document]) -> Any:
    """Return the model of the lines; its results are what no node reads."""
    onnx = import_module("onnx")
    helper = onnx.helper
    types = {x: helper.np_dtype_to_tensor_dtype(np.dtype(x)) for x in _TYPES}
    inputs, constants, nodes, made, read = [], [], [], [], set()
    for x in lines:
        if "input" in x:
            inputs.append(helper.make_tensor_value_info(x["input"], types[x["type"]], x["sizes"]))
        elif "constant" in x:
            array = np.array(x["values"], x["type"]).reshape(x["sizes"])
            constants.append(onnx.numpy_helper.from_array(array, x["constant"]))
        else:
            nodes.append(helper.make_node(x["node"], x["of"], x["results"], **x["with"]))
            made += x["results"]
            read |= {*x["of"]}
    outputs = [onnx.ValueInfoProto(name=x) for x in made if x not in read]
    graph = helper.make_graph(nodes, "hunted", inputs, outputs, constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)])
    inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    onnx.checker.check_model(inferred, full_check=True)
    return inferred


_TYPES: Final = (*("float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"),)


def _referenced(model: Any, feeds: dict[str, Array]) -> list[Array]:
    """Return what ONNX's reference evaluator makes, if all values have the sizes of the standard.

    Its pools pad one dimension by what another one is to be padded by; a mean of that has a size
    that is right again.
    """
    evaluator = import_module("onnx.reference").ReferenceEvaluator(model)
    with np.errstate(all="ignore"):
        made = evaluator.run(None, feeds, intermediate=True)
    for value in (*model.graph.value_info, *model.graph.output):
        sizes = tuple([x.dim_value for x in value.type.tensor_type.shape.dim])
        if sizes != np.shape(made[value.name]):
            raise ValueError("ONNX's reference makes other sizes than ONNX's inference of shapes")
    return [np.asarray(made[x.name]) for x in model.graph.output]
