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


def hlo_of(code: bytes) -> bytes:
    """Return the protobuf of a module that is given in StableHLO."""
    from jaxlib import _jax

    library: Any = _jax
    convert = library.mlir.mlir_module_to_xla_computation
    found: bytes = convert(
        code, use_tuple_args=False, return_tuple=False
    ).as_serialized_hlo_module_proto()
    return found


def kept_hlo_of(code: bytes, cached: ObjectCache) -> bytes:
    """Return the same from what is kept, where it is; else it is converted, and kept.

    What calls Python's functions is no other process's, and is not kept.
    """
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
        found = BytesIO()
        module.operation.write_bytecode(found)
    return found.getvalue()
