"""Forests beside ONNX Runtime: one process, one thread, in turn, by time of the processor.

    python benchmarks/trees.py [--rows 1,32,1024] [--models FOLDER] [--only RE] [--target NAME]

It takes the packages onnx and onnxruntime. Forests are drawn at random and written as
TreeEnsembleRegressor; with `--models` they are those in the files of a folder instead, which take
one array of floats. Rows are drawn from a normal distribution. Columns: rows of a batch,
microseconds of a run, time of ONNX Runtime for ours (above 1: ours is faster) where each run has
other rows, and where all have the same, which branches of a walk can be predicted of; seconds of
the processor until the first result of ONNX Runtime and of ours, without the cache; and the
greatest difference of a result, as a share of the greatest one.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time
from typing import Any, Final

import numpy as np

ROUNDS: Final = 15
ROUND_SECONDS: Final = 0.02
FRESH_ROWS: Final = 8192
"""Rows that batches are cut from."""


@dataclass(frozen=True)
class Forest:
    """A forest to be drawn: how many trees of how many leaves, and what share is on each side."""

    trees: int
    leaves: int
    features: int
    least_share: float

    @property
    def name(self) -> str:
        """What the table calls it."""
        return f"{self.trees} trees of {self.leaves} leaves, {self.features} features"


FORESTS: Final = (
    Forest(100, 31, 10, 0.1),
    Forest(500, 31, 30, 0.1),
    Forest(500, 63, 100, 0.1),
    Forest(300, 64, 30, 0.5),
    Forest(200, 127, 30, 0.1),
    Forest(200, 1024, 30, 0.4),
    Forest(100, 4096, 30, 0.5),
)


class _Drawing:
    """The attributes of a regressor, as they are drawn tree by tree."""

    def __init__(self, forest: Forest) -> None:
        self.forest = forest
        self.random = np.random.default_rng(1)
        self.nodes: list[list[Any]] = []
        self.leaves: list[list[Any]] = []
        for tree in range(forest.trees):
            self.first = len(self.nodes)
            self._node(tree, forest.leaves)

    def _node(self, tree: int, leaves: int) -> int:
        here = len(self.nodes) - self.first
        node = [tree, here, 0, 0.0, "LEAF", 0, 0]
        self.nodes.append(node)
        if leaves == 1:
            self.leaves.append([tree, here, 0, float(self.random.normal())])
            return here
        share = self.random.uniform(self.forest.least_share, 1 - self.forest.least_share)
        side = min(max(round(leaves * share), 1), leaves - 1)
        feature = int(self.random.integers(self.forest.features))
        node[2:5] = [feature, float(self.random.normal()), "BRANCH_LEQ"]
        node[5] = self._node(tree, side)
        node[6] = self._node(tree, leaves - side)
        return here


def model_of(forest: Forest) -> bytes:
    """Return a model of a TreeEnsembleRegressor with a free number of rows."""
    from onnx import TensorProto, helper

    drawn = _Drawing(forest)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    nodes = {f"nodes_{x}": [*y] for x, y in zip(names, zip(*drawn.nodes, strict=True), strict=True)}
    names = ("treeids", "nodeids", "ids", "weights")
    leaves = zip(names, zip(*drawn.leaves, strict=True), strict=True)
    given = {**nodes, **{f"target_{x}": [*y] for x, y in leaves}}
    node = helper.make_node(
        "TreeEnsembleRegressor", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **given
    )
    graph = helper.make_graph(
        [node],
        "forest",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, forest.features])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, 1])],
    )
    imports = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 3)]
    made = helper.make_model(graph, opset_imports=imports, ir_version=8)
    found: bytes = made.SerializeToString()
    return found


def _timed(run: Callable[[Any], Any], batches: Iterator[Any], count: int) -> float:
    start = process_time()
    for _ in range(count):
        run(next(batches))
    return (process_time() - start) / count


def _least(runs: list[Callable[[Any], Any]], batches: list[Any]) -> list[float]:
    """The least seconds of a run of each, of rounds in turn."""
    given = [itertools.cycle(batches) for _ in runs]
    first = [_timed(run, x, 3) for run, x in zip(runs, given, strict=True)]
    counts = [max(1, int(ROUND_SECONDS / max(x, 1e-7))) for x in first]
    least = [float("inf")] * len(runs)
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            least[i] = min(least[i], _timed(run, given[i], counts[i]))
    return least


def _first(make: Callable[[], Any], feed: Callable[[Any], Any]) -> tuple[Any, float]:
    start = process_time()
    session = make()
    session.run(None, feed(session))
    return session, process_time() - start


def measure(model: bytes, rows: int, target: str) -> str:
    """Return the columns of a model for a number of rows."""
    import onnxruntime

    from lowtide.onnx import InferenceSession

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = settings.inter_op_num_threads = 1
    makers: list[Callable[[], Any]] = [
        lambda: InferenceSession(model, threads=1, cache=False, compiler="here", target=target),
        lambda: onnxruntime.InferenceSession(model, settings, ["CPUExecutionProvider"]),
    ]
    given = makers[1]().get_inputs()[0]
    size = max(1, FRESH_ROWS // rows), rows, given.shape[1]
    batches = [*np.random.default_rng(rows).normal(size=size).astype(np.float32)]
    sessions, firsts = zip(
        *[_first(x, lambda _: {given.name: batches[0]}) for x in makers], strict=True
    )
    runs = [lambda x, own=s: own.run(None, {given.name: x}) for s in sessions]
    ours, theirs = (np.asarray(run(batches[0])[-1]) for run in runs)
    gap = np.abs(ours - theirs).max() / np.abs(theirs).max()
    fresh, same = _least(runs, batches), _least(runs, batches[:1])
    return (
        f"{rows} | {fresh[0] * 1e6:.1f} | {fresh[1] / fresh[0]:.2f} | {same[1] / same[0]:.2f} | "
        f"{firsts[1]:.2f} / {firsts[0]:.2f} | {gap:.1e} |"
    )


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="1,32,1024")
    parser.add_argument("--models", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default="native")
    given = parser.parse_args()
    sys.setrecursionlimit(10_000)
    if given.models is None:
        models = {x.name: lambda own=x: model_of(own) for x in FORESTS}
    else:
        models = {x.stem: x.read_bytes for x in sorted(given.models.glob("*.onnx"))}
    print("| forest | rows | us | speed | of equal rows | first s | difference |")
    print("|---|---|---|---|---|---|---|")
    for name, read in models.items():
        if not re.search(given.only, name):
            continue
        model = read()
        for rows in map(int, given.rows.split(",")):
            print(f"| {name} | {measure(model, rows, given.target)}", flush=True)


if __name__ == "__main__":
    main()
