"""XLA:CPU as a judge: a module as it computes it, compiled as cheaply as it can."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any, Final

import numpy as np

from lowtide.autopsy.plain_module import plain_module
from lowtide.frontend.hlo_proto import write_hlo_module_proto
from lowtide.ir import Instruction, Module, Opcode
from lowtide.ir.attributes import ReduceWindow
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
    if _scatters_twice(plain):
        raise UnsupportedOpError("XLA:CPU scatters twice into the place of one operand")
    if _updates_by_itself(plain):
        raise UnsupportedOpError("XLA:CPU reads an array for an update while it overwrites it")
    if _chooses_in_padding(plain):
        raise UnsupportedOpError("XLA:CPU chooses another one of equal elements in padded windows")
    _give_bits_their_sign(plain)
    if _has_packed_integers(module):
        raise UnsupportedOpError("XLA:CPU computes integers of 2 and 4 bits in 8 bits")
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
    leaves = [leaf for _, leaf in module.entry.root.shape.leaves() if leaf.is_array]
    return [_signed(x, DTYPES[y.element_type]) for x, y in zip(results, leaves, strict=True)]


def _signed(x: Array, wanted: np.dtype[Any]) -> Array:
    is_other = x.dtype.kind in "iu" and x.dtype != wanted and x.dtype.itemsize == wanted.itemsize
    return x.view(wanted) if is_other else x


def _scatters_twice(module: Module) -> bool:
    """Whether a scatter into several arrays has two that lie in one place."""
    for computation in module.computations.values():
        for x in computation.instructions.values():
            targets = x.operands[: len(x.operands) // 2]
            if x.opcode is Opcode.SCATTER and len({_named(y) for y in targets}) < len(targets):
                return True
    return False


def _updates_by_itself(module: Module) -> bool:
    """Whether a part of an array, moved by nothing but slices, is put elsewhere in that array."""
    for computation in module.computations.values():
        for x in computation.instructions.values():
            if x.opcode is not Opcode.DYNAMIC_UPDATE_SLICE:
                continue
            if _named(x.operands[0]) == _named(x.operands[1]):
                return True
    return False


def _chooses_in_padding(module: Module) -> bool:
    """Whether a select-and-scatter has a window with padding, in which elements may be equal."""
    return any(
        w.padding_low or w.padding_high
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if x.opcode is Opcode.SELECT_AND_SCATTER
        for w in x.attributes_as(ReduceWindow).window.dimensions
    )


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


def _named(x: Instruction) -> str:
    """The name of the array behind operations that may leave its bytes where they are."""
    while x.opcode in _IN_PLACE:
        x = x.operands[0]
    return x.name


_IN_PLACE: Final = frozenset(
    {
        *(Opcode.BITCAST, Opcode.BROADCAST, Opcode.CONVERT, Opcode.COPY, Opcode.PAD),
        *(Opcode.DYNAMIC_SLICE, Opcode.DYNAMIC_UPDATE_SLICE),
        *(Opcode.RESHAPE, Opcode.REVERSE, Opcode.SLICE, Opcode.TRANSPOSE),
    }
)


def _has_packed_integers(module: Module) -> bool:
    types = {
        leaf.element_type
        for computation in module.computations.values()
        for x in computation.instructions.values()
        for _, leaf in x.shape.leaves()
        if leaf.is_array
    }
    return any(t.bits < 8 and t.is_integer for t in types)


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
