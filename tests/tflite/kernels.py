"""LiteRT's kernels as judges: run where the package is installed, else what they gave once.

    pip install ai-edge-litert && python -m pytest tests/tflite --record-litert

`recorded.npz` has their results by the digest of the model, of the values and of the kernels that
were asked for. The command writes it anew, with the results of all tests that ask.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

REFERENCE, OPTIMIZED = "BUILTIN_REF", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
RECORDED = Path(__file__).with_name("recorded.npz")

Steps = Sequence[Sequence[np.ndarray]]
"""The values of the inputs in several calls of one interpreter, which keeps its state."""

recorded_now: dict[str, np.ndarray] = {}
"""What was asked of the kernels in this process."""


def litert_results(content: bytes, kinds: Sequence[str], steps: Steps) -> list[list[np.ndarray]]:
    """Return the outputs of several calls, by the first set of kernels that has the operators."""
    key = _key(content, kinds, steps)
    if find_spec("ai_edge_litert") is None:
        return _recorded(key, len(steps))
    found = calls(_interpreter(content, kinds), steps)
    for number, outputs in enumerate(found):
        for place, value in enumerate(outputs):
            recorded_now[f"{key}.{number}.{place}"] = value
    return found


def calls(interpreter, steps: Steps) -> list[list[np.ndarray]]:
    """Return the outputs of several calls of one interpreter, ours or LiteRT's."""
    found = []
    for values in steps:
        for entry, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.set_tensor(entry["index"], value)
        interpreter.invoke()
        details = interpreter.get_output_details()
        found.append([interpreter.get_tensor(x["index"]) for x in details])
    return found


def write_recorded() -> None:
    """Write what was asked, in order of the keys."""
    np.savez_compressed(RECORDED, **dict(sorted(recorded_now.items())))


def _interpreter(content: bytes, kinds: Sequence[str]):
    package = import_module("ai_edge_litert.interpreter")
    for kind in kinds:
        how = {"experimental_op_resolver_type": package.OpResolverType[kind]}
        try:
            found = package.Interpreter(model_content=content, **how)
            found.allocate_tensors()
        except (RuntimeError, ValueError):
            continue
        return found
    raise AssertionError("no set of kernels has the operator")


def _key(content: bytes, kinds: Sequence[str], steps: Steps) -> str:
    digest = hashlib.sha256(content)
    digest.update(",".join(kinds).encode())
    for values in steps:
        for value in values:
            digest.update(f"{value.dtype}{value.shape}".encode() + value.tobytes())
    return digest.hexdigest()[:16]


@cache
def _archive() -> dict[str, np.ndarray]:
    with np.load(RECORDED) as archive:
        return dict(archive)


def _recorded(key: str, count: int) -> list[list[np.ndarray]]:
    archive = _archive()
    found: list[list[np.ndarray]] = []
    for number in range(count):
        places = range(sum([x.startswith(f"{key}.{number}.") for x in archive]))
        found.append([archive[f"{key}.{number}.{place}"] for place in places])
    if not all(found):
        pytest.skip("neither ai-edge-litert nor results of its kernels for this model")
    return found
