"""Arenas of TFLite models: of the native program, and of TFLite's own planner on the same tensors.

    python benchmarks/tflite_arenas.py [--target NAME] [--threads N] FILE...

Columns: bytes of the arena of the program that lowtide compiles (its arguments and results lie
outside), those that TFLite's planner takes for the tensors between operators, inputs and outputs
left out as well, and the same with them, which is what TFLite's arena holds. Sizes are those of
the file, or with the package `ai-edge-litert` those that LiteRT gives tensors in a run on zeros,
if it has one; what kernels of TFLite take besides is not counted.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import lowtide
from lowtide.frontend.tflite.model import LiteGraph, read_tflite
from lowtide.planning import TensorUsageRecord, assign_offsets


def sizes_of(path: Path, graph: LiteGraph) -> list[int]:
    """Return the bytes of each tensor: files do not say those that depend on others' numbers."""
    found = [x.nbytes for x in graph.tensors]
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError:
        return found
    interpreter: Any = Interpreter(str(path), experimental_preserve_all_tensors=True)
    try:
        interpreter.allocate_tensors()
        for said in interpreter.get_input_details():
            interpreter.set_tensor(said["index"], np.zeros(said["shape"], said["dtype"]))
        interpreter.invoke()
    except RuntimeError:  # As where it does not take the sizes of the file.
        return found
    for said in interpreter.get_tensor_details():
        if said["index"] < len(found) and said["dtype"] is not np.bytes_:
            width = np.dtype(said["dtype"]).itemsize
            found[said["index"]] = int(np.prod(said["shape"], dtype=np.int64)) * width
    return found


def records(graph: LiteGraph, sizes: list[int], outside: bool) -> list[TensorUsageRecord]:
    """Return when each tensor of the arena is taken; `outside` leaves out inputs and outputs."""
    last = len(graph.operators) - 1
    first: dict[int, int] = {} if outside else dict.fromkeys(graph.inputs, 0)
    final = {} if outside else dict.fromkeys(graph.outputs, last)
    apart = {*graph.inputs, *graph.outputs} if outside else set()
    for step, operator in enumerate(graph.operators):
        for number in operator.outputs:
            if number >= 0 and number not in apart:
                first.setdefault(number, step)
        for number in (*operator.inputs, *operator.outputs):
            if number in first:
                final[number] = max(final.get(number, 0), step)
    used = [x for x in first if not graph.tensors[x].is_variable and graph.tensors[x].data is None]
    return [TensorUsageRecord(sizes[x], first[x], final.get(x, first[x])) for x in used if sizes[x]]


def main() -> None:
    """Print a row for each file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--target", default="native", metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    print("| model | arena | TFLite's between | TFLite's tensors |\n|---|--:|--:|--:|")
    for path in given.files:
        program = lowtide.compile(
            lowtide.read(path), target=given.target, threads=given.threads, cache=False
        )
        own = program.memory["ladder"]["arena_bytes"]
        graph = read_tflite(path.read_bytes()).main
        sizes = sizes_of(path, graph)
        theirs = [
            assign_offsets(records(graph, sizes, x), "tflite_arena", alignment=64).total_size
            for x in (True, False)
        ]
        row = [path.stem, *[f"{x:,}" for x in (own, *theirs)]]
        print("| " + " | ".join(row) + (" | above |" if own > theirs[1] else " |"), flush=True)


if __name__ == "__main__":
    main()
