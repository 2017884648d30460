"""JAX's library for StableHLO: it makes HLO of it, and works out sizes.

It is written in C++, prints what it rejects, and trusts bytecode: of strangers' files it is asked
in a process of its own, by `stablehlo.py`.
"""

from __future__ import annotations

from io import BytesIO
from typing import Any

from jaxlib import _jax

_mlir: Any = _jax.mlir


def hlo_of(code: bytes) -> bytes:
    """Return a module of StableHLO, text or bytecode, as HLO in protobuf; sizes are known.

    Raises what the library raises.
    """
    found = _mlir.mlir_module_to_xla_computation(code, use_tuple_args=False, return_tuple=False)
    proto: bytes = found.as_serialized_hlo_module_proto()
    return proto


def bytecode_of(module: Any) -> bytes:
    """Return a module of `jaxlib.mlir` as bytecode."""
    written = BytesIO()
    module.operation.write_bytecode(file=written)
    return written.getvalue()


def with_inferred_sizes(code: bytes) -> bytes:
    """Return a module whose sizes are all known: they follow from those of its arguments.

    Raises what the library raises where they do not.
    """
    refined: bytes = _mlir.refine_polymorphic_shapes(
        mlir_module=code,
        enable_shape_assertions=True,
        validate_static_shapes=True,
        enable_shardy=True,
    )
    return refined
