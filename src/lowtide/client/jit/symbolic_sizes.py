"""Programs of `jax.export` with symbolic sizes, lowered for arguments of known sizes."""

from __future__ import annotations

from io import BytesIO
from typing import Any


def hlo_of(lowered: Any) -> bytes:
    """Return the HLO of a `jax.stages.Lowered` as protobuf.

    Where JAX left sizes symbolic, in calls of exported programs, they follow from the arguments.
    Raises what JAX raises for a function that has no HLO.
    """
    import jax

    try:
        found: bytes = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    except jax.errors.JaxRuntimeError as error:
        if "dynamic" not in str(error):
            raise
        return _with_known_sizes(lowered.compiler_ir("stablehlo"))
    return found


def _with_known_sizes(module: Any) -> bytes:
    """The HLO of a StableHLO module whose sizes follow from those of its arguments."""
    from jaxlib import _jax

    library: Any = _jax
    code = BytesIO()
    module.operation.write_bytecode(file=code)
    refined = library.mlir.refine_polymorphic_shapes(
        mlir_module=code.getvalue(),
        enable_shape_assertions=True,
        validate_static_shapes=True,
        enable_shardy=True,
    )
    convert = library.mlir.mlir_module_to_xla_computation
    found: bytes = convert(refined, use_tuple_args=False).as_serialized_hlo_module_proto()
    return found
