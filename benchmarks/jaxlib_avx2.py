"""A copy of jaxlib that takes the processor for one without AVX-512.

    python benchmarks/jaxlib_avx2.py FOLDER
    PYTHONPATH=FOLDER python benchmarks/vs_xla.py --avx2 ...

XLA's library of products and convolutions asks the processor for its instructions, whatever
`--xla_cpu_max_isa` says. In the copy it takes the registers that the system keeps to be those of
SSE and AVX (`onnxruntime_avx2.py` has more); so does the compiler of XLA.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from onnxruntime_avx2 import copied

_REPLACED: Final = {b"\x31\xc9\x0f\x01\xd0": b"\x31\xc9\xb0\x07\x90"}
"""`xor ecx, ecx; xgetbv` becomes `xor ecx, ecx; mov al, 7; nop`."""

if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {Path(__file__).name} FOLDER")
    print(copied(Path(sys.argv[1]), "jaxlib", "libjax_common.so", _REPLACED))
