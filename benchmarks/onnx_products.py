"""Products of few rows with weights of a session, beside ONNX Runtime in one process, in turn.

    python benchmarks/onnx_products.py [--target NAME]

Each row of the table is a model that is one MatMul of [rows, k] with an initializer [k, columns]
of f32, on one thread. Columns: GFLOP/s of ours and of ONNX Runtime by time of the processor, the
best of rounds that alternate, and the ratio. `--target` is whose code lowtide makes; PYTHONPATH
says which ONNX Runtime it is, such as one that `onnxruntime_avx2.py` made for AVX2.
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from time import perf_counter, thread_time
from typing import Any, Final

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from lowtide.onnx import InferenceSession

SIZES: Final = (
    (1, 1024, 1024),
    (4, 1024, 1024),
    (8, 1024, 4096),
    (16, 1024, 8208),
    (16, 1024, 8210),
    (40, 3072, 1024),
    (49, 4608, 512),
    (128, 768, 768),
)
"""Rows, k and columns."""

ROUNDS: Final = 15
ROUND_SECONDS: Final = 0.05


def product(rows: int, k: int, columns: int) -> tuple[onnx.ModelProto, dict[str, Any]]:
    """Return a model that multiplies by a matrix of its own, and what it is fed."""
    random = np.random.default_rng(columns)
    matrix = random.normal(size=(k, columns)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, k])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, columns])],
        [numpy_helper.from_array(matrix, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model, {"x": random.normal(size=(rows, k)).astype(np.float32)}


def least_seconds(model: onnx.ModelProto, feeds: dict[str, Any], target: str) -> list[float]:
    """Return the least times of a run, ours and ONNX Runtime's, in seconds of the processor."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads, settings.log_severity_level = 1, 3
    data = model.SerializeToString()
    other = onnxruntime.InferenceSession(data, settings, ["CPUExecutionProvider"])
    own = InferenceSession(data, threads=1, target=target, cache=False)
    runs = [partial(x.run, None, feeds) for x in (own, other)]
    for run in runs:
        run()
    best = [math.inf, math.inf]
    for _ in range(ROUNDS):
        for i, run in enumerate(runs):
            end = perf_counter() + ROUND_SECONDS
            while perf_counter() < end:
                begin = thread_time()
                run()
                best[i] = min(best[i], thread_time() - begin)
    return best


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--target", default="native", metavar="NAME")
    target = parser.parse_args().target
    print("| rows x k x columns | GFLOP/s | ONNX Runtime | ratio |\n| --- | --- | --- | --- |")
    for sizes in SIZES:
        times = least_seconds(*product(*sizes), target)
        own, theirs = [2e-9 * math.prod(sizes) / x for x in times]
        name = " x ".join([f"{x:,}" for x in sizes])
        print(f"| {name} | {own:.0f} | {theirs:.0f} | {own / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
