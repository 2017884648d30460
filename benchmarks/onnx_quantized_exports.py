"""Smaller versions of exported models: of integers of 8 and 4 bits, and of f16.

    python benchmarks/onnx_quantized_exports.py FOLDER NAME...

It takes onnxruntime and onnxconverter-common. Of FOLDER/NAME.onnx, which `onnx_exports.py` wrote,
it makes NAME.dynamic (products of integers whose scales each run finds), NAME.qdq (pairs around
products and convolutions, weights by channel), NAME.q4 (weights of 4 bits in MatMulNBits) and
NAME.f16, each with its description beside it.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx


class _Samples:
    """Inputs for calibration, drawn by the description of a model."""

    def __init__(self, path: Path) -> None:
        said = json.loads(path.with_suffix(".json").read_text())
        types = {x.name: x.type.tensor_type.elem_type for x in onnx.load(path).graph.input}
        random = np.random.default_rng(3)
        self._left: Iterator[dict[str, Any]] = iter(
            [{x: _drawn(random, said, x, types[x]) for x in said["sizes"]} for _ in range(4)]
        )

    def get_next(self) -> dict[str, Any] | None:
        """Return the next inputs, None behind the last ones."""
        return next(self._left, None)


def _drawn(random: np.random.Generator, said: dict[str, Any], name: str, kind: int) -> Any:
    sizes = said["sizes"][name]
    if kind == onnx.TensorProto.FLOAT:
        return random.normal(size=sizes).astype(np.float32)
    if name in said["values"]:
        return np.full(sizes, said["values"][name], np.int64)
    return random.integers(0, said["most"], sizes)


def _dynamic(path: Path, to: Path) -> None:
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(path, to)


def _qdq(path: Path, to: Path) -> None:
    from onnxruntime.quantization import quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process

    ready = to.with_suffix(".ready")
    quant_pre_process(str(path), str(ready), skip_symbolic_shape=True)
    quantize_static(str(ready), str(to), _Samples(path), per_channel=True)
    ready.unlink()


def _q4(path: Path, to: Path) -> None:
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(path), block_size=32, is_symmetric=True)
    quantizer.process()
    onnx.save(quantizer.model.model, to)


def _f16(path: Path, to: Path) -> None:
    from onnxconverter_common import float16

    onnx.save(float16.convert_float_to_float16(onnx.load(path), keep_io_types=True), to)


KINDS: Final[dict[str, Callable[[Path, Path], None]]] = {
    "dynamic": _dynamic,
    "qdq": _qdq,
    "q4": _q4,
    "f16": _f16,
}


def _made(make: Callable[[], None]) -> str:
    try:
        make()
    except Exception as error:
        return f"not made: {str(error).splitlines()[0][:200]}"
    return "made"


def main() -> None:
    """Write the versions of each model, and say which could not be made."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="+", metavar="NAME")
    given = parser.parse_args()
    for name in given.names:
        path = given.folder / f"{name}.onnx"
        for kind, make in KINDS.items():
            to = given.folder / f"{name}.{kind}.onnx"
            said = _made(partial(make, path, to))
            print(to.stem, said, flush=True)
            if said == "made":
                shutil.copy(path.with_suffix(".json"), to.with_suffix(".json"))


if __name__ == "__main__":
    main()
