"""XLA:CPU as a judge: a module as it computes it, compiled as cheaply as it can."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np
from tests.hunting.xla_differences import is_finite, known_difference, where_infinities_differ

from lowtide.autopsy.plain_module import plain_module
from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.ir import Module, Opcode
from lowtide.ir.element_type import ElementType
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.literal import DTYPES, Array
from lowtide.ir.shape import tuple_shape
from lowtide.passes.dead_code import remove_dead_code
from lowtide.passes.editing import make

OPTIONS: Final = (
    ("xla_cpu_enable_fast_math", False),
    ("xla_cpu_enable_fast_min_max", False),
    ("xla_backend_optimization_level", 0),
    ("xla_llvm_disable_expensive_passes", True),
    ("xla_allow_excess_precision", False),
    ("xla_disable_hlo_passes", "algsimp,constant_folding,reshape-mover"),
)
"""Options that keep XLA from changes whose results round in another way."""


@cache
def _client() -> tuple[Any, Any, Any, Any]:
    """JAX, the parts of jaxlib that read and compile modules, and the CPU."""
    jax = import_module("jax")
    jax.config.update("jax_platforms", "cpu")
    hlo, jaxlib = import_module("jaxlib._hlo"), import_module("jaxlib._jax")
    return jax, hlo, jaxlib, jax.devices("cpu")[0]


def run_xla(module: Module, arguments: Sequence[Array]) -> list[Array]:
    """Return the arrays of the result, depth first. Raises what jaxlib raises.

    XLA:CPU makes random bits unsigned, whatever the module says; here they have their sign.
    """
    plain = _asynchronous_as_calls(plain_module(module))
    known = known_difference(plain)
    if known is not None:
        raise UnsupportedOpError(f"XLA:CPU {known}")
    _give_bits_their_sign(plain)
    jax, hlo, jaxlib, device = _client()
    plain.input_output_aliases = ()
    parsed = hlo.HloModule.from_serialized_hlo_module_proto(write_hlo_module_proto(plain))
    computation = hlo.XlaComputation(parsed.as_serialized_hlo_module_proto())
    mlir = jaxlib.mlir.xla_computation_to_mlir_module(computation)
    options = jaxlib.CompileOptions()
    options.env_option_overrides = [*OPTIONS]
    loaded = device.client.compile_and_load(mlir, jaxlib.DeviceList((device,)), options)
    with jax.enable_x64(True):
        given = [jax.device_put(np.array(x)) for x in arguments]
        results = [np.asarray(x) for x in loaded.execute(given)]
    doubtful = where_infinities_differ(plain)
    if doubtful is not None and not all(is_finite(x) for x in results):
        raise UnsupportedOpError(f"XLA:CPU {doubtful}")
    leaves = [leaf for _, leaf in module.entry.root.shape.leaves() if leaf.is_array]
    return [_signed(x, DTYPES[y.element_type]) for x, y in zip(results, leaves, strict=True)]


def _signed(x: Array, wanted: np.dtype[Any]) -> Array:
    is_other = x.dtype.kind in "iu" and x.dtype != wanted and x.dtype.itemsize == wanted.itemsize
    return x.view(wanted) if is_other else x


def _give_bits_their_sign(module: Module) -> None:
    """Have random bits made unsigned and read as what they are."""
    for computation in module.computations.values():
        for x in list(computation.instructions.values()):
            if x.opcode is not Opcode.RNG_BIT_GENERATOR or not x.shape.is_tuple:
                continue
            state, bits = x.shape.tuple_shapes
            unsigned = _UNSIGNED.get(bits.element_type)
            if unsigned is None:
                continue
            x.set_shape(tuple_shape([state, bits.with_element_type(unsigned)]))
            for user in list(x.users):
                if user.shape is bits:
                    user.set_shape(bits.with_element_type(unsigned))
                    signed = make(computation, Opcode.BITCAST_CONVERT, bits, (user,), user)
                    for reader in [y for y in user.users if y is not signed]:
                        for number, operand in enumerate(reader.operands):
                            if operand is user:
                                reader.replace_operand(number, signed)
                    if user.is_root:
                        computation.root = signed


_UNSIGNED: Final = {
    **{ElementType(f"s{bits}"): ElementType(f"u{bits}") for bits in (8, 16, 32, 64)},
    ElementType.F16: ElementType.U16,
    ElementType.BF16: ElementType.U16,
    ElementType.F32: ElementType.U32,
    ElementType.F64: ElementType.U64,
}


def _asynchronous_as_calls(module: Module) -> Module:
    """The module with calls in the place of asynchronous pairs, and without those of copies."""
    for computation in list(module.computations.values()):
        for x in list(computation.instructions.values()):
            if x.opcode is Opcode.ASYNC_DONE:
                start = x.operands[0]
                call = computation.add(
                    Opcode.CALL,
                    x.shape,
                    start.operands,
                    called_computations=start.called_computations,
                )
                x.replace_all_uses_with(call)
            elif x.opcode is Opcode.COPY_DONE:
                x.replace_all_uses_with(x.operands[0].operands[0])
    remove_dead_code(module)
    return module
