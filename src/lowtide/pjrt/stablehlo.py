"""StableHLO as HLO: converted by JAX's library, which takes longer than a small program runs."""

from __future__ import annotations

import hashlib
from functools import cache, partial
from io import BytesIO
from typing import Any, Final

from lowtide.files.object_cache import ObjectCache
from lowtide.host_calls.functions import TARGET

MOST_BYTES: Final = 1 << 24
"""Programs of more bytes have large constants, and are not kept once more."""


def kept_hlo_of(code: bytes, cached: ObjectCache) -> bytes:
    """Return a program in StableHLO as HLO in protobuf, from what is kept; else that is kept.

    What calls Python's functions is no other process's, and is not kept.
    """
    from lowtide.frontend.stablehlo_library import hlo_of  # Not for programs that are known.

    if len(code) > MOST_BYTES or TARGET.encode() in code:
        return hlo_of(code)
    from jaxlib.version import __version__

    key = hashlib.sha256(f"jaxlib {__version__}\n".encode() + code).hexdigest()[:40]
    return cached.through(key, partial(hlo_of, code))


@cache
def mlir_context() -> Any:
    """Return a context with the dialects that JAX writes programs in."""
    from jax._src.interpreters import mlir

    make: Any = mlir.make_ir_context
    return make()


def parsed(code: bytes) -> Any:
    """Return a program in StableHLO, as JAX hands it in, as a module of `mlir_context`."""
    from jaxlib.mlir.dialects import stablehlo

    read: Any = stablehlo.deserialize_portable_artifact
    return read(mlir_context(), code)


def without_locations(code: bytes) -> bytes:
    """Return a program in StableHLO without the lines of the user's program that it came from."""
    from jaxlib.mlir import passmanager

    library: Any = passmanager
    with mlir_context():
        module = parsed(code)
        library.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        written = BytesIO()
        module.operation.write_bytecode(written)
    return written.getvalue()
