"""A copy of ONNX Runtime that takes the processor for one without AVX-512 and VNNI.

    python benchmarks/onnxruntime_avx2.py FOLDER

The package onnxruntime that is installed is copied into FOLDER. There its library asks the
processor no longer which registers the system keeps (`xgetbv`), but takes them to be those of SSE
and AVX, and it finds no AVX-VNNI. With FOLDER before others on the path of modules, as
`onnx_models.py --theirs FOLDER` has it, both runtimes have equal instructions.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

_LIBRARY: Final = "capi/onnxruntime_pybind11_state*.so"

_REPLACED: Final = {
    b"\x31\xc9\x0f\x01\xd0": b"\x31\xc9\xb0\x07\x90",
    b"\x0f\xa2\xa8\x10": b"\x0f\xa2\xa8\x00",
}
"""`xor ecx, ecx; xgetbv` becomes `xor ecx, ecx; mov al, 7; nop`, and after `cpuid` the test of bit
4, which is AVX-VNNI in leaf 7.1, one of no bit."""


def copied(folder: Path, package: str, pattern: str, replaced: Mapping[bytes, bytes]) -> Path:
    """Copy a package and return its library of a pattern, in which instructions were replaced.

    Raises SystemExit where the package is not installed, or its library lacks the instructions.
    """
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"the package {package} is not installed")
    target = folder / package
    shutil.copytree(Path(found.origin).parent, target, dirs_exist_ok=True)
    library = next(target.glob(pattern))
    code = library.read_bytes()
    for old, new in replaced.items():
        if old not in code:
            raise SystemExit(f"{library.name}: instructions {old.hex(' ')} are not there")
        code = code.replace(old, new)
    library.write_bytes(code)
    return library


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {Path(__file__).name} FOLDER")
    print(copied(Path(sys.argv[1]), "onnxruntime", _LIBRARY, _REPLACED))
