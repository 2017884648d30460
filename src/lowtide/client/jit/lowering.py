"""From a function that JAX traces to a module, and what JAX says of its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from lowtide.client.jit.foreign_targets import know_targets_of_jax
from lowtide.client.jit.host_rules import lowering_parameters
from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.host_calls.functions import HostFunction, function_named
from lowtide.host_calls.instructions import is_python_call
from lowtide.ir import ElementType, Instruction, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.clone import clone_module
from lowtide.ir.errors import UnsupportedOpError, unsupported
from lowtide.records import dataclass

_CALLBACK: Final = "callback"
"""What the targets of calls back into Python by the rules of others have in their names."""

_PYTHON_PREFIX: Final = "xla_python_"


@dataclass(frozen=True, eq=False, slots=True)
class LoweredProgram:
    """A module, the trees of its arguments and results, and one record per leaf.

    `arguments` has JAX's record of each dynamic argument (shape, dtype, whether it is donated), and
    `names` says how the caller wrote it; `results` has the type of each result. `functions` are
    those that the module calls, which have to be held until it is compiled.
    """

    module: Module
    in_tree: Any
    out_tree: Any
    arguments: tuple[Any, ...]
    names: tuple[str, ...]
    results: tuple[Any, ...]
    functions: tuple[HostFunction, ...] = ()

    @property
    def donated(self) -> tuple[int, ...]:
        """The numbers of the donated leaves."""
        return tuple([i for i, x in enumerate(self.arguments) if x.donated])


def program_of(traced: Any, devices: int = 1) -> LoweredProgram:
    """Return the program of a function that keeps unused arguments, traced by JAX.

    `devices` are those of the mesh that it was traced with.

    Raises UnsupportedOpError for a call back into Python that no rule of ours lowers, with the line
    of the user's program, and where what goes in or out is no array, such as references, which the
    function writes to.
    """
    import jax

    know_targets_of_jax()
    # JAX has no devices of a mesh, and calls libraries of its own on others than the host's.
    is_told = devices > 1 or jax.default_backend() != "cpu"
    platforms = {"lowering_platforms": ("cpu",)} if is_told else {}
    lowered = traced.lower(**platforms, **lowering_parameters())
    module = read_hlo_proto(_hlo_of(lowered))
    module.lay_out_entry_by_default()
    module.num_partitions = devices
    if devices > 1:  # Whole arrays go in and come out, so that how they are cut is free.
        module.allow_spmd_sharding_propagation_to_parameters = (True,)
        module.allow_spmd_sharding_propagation_to_output = (True,)
    refuse_callbacks(module)
    _refuse_others([*traced.jaxpr.in_avals, *_leaves(traced.out_info)])
    paths = jax.tree_util.tree_flatten_with_path(lowered.args_info)[0]
    arguments = tuple([info for _, info in paths])
    found = sum([not x.shape.is_token for x in module.entry.parameters])
    if found != len(arguments):
        raise UnsupportedOpError(
            f"the function has {len(arguments)} arguments, its module {found} parameters: what the "
            "function closes over has to be constant, so no reference (jax.new_ref) and no array "
            "while jax_use_simplified_jaxpr_constants is on; hand it in as an argument"
        )
    return LoweredProgram(
        module,
        lowered.in_tree,
        lowered.out_tree,
        arguments,
        tuple([jax.tree_util.keystr(path) for path, _ in paths]),
        tuple(_leaves(traced.out_info)),
        held_functions(module),
    )


def _hlo_of(lowered: Any) -> bytes:
    """The HLO of a `jax.stages.Lowered` in protobuf; raises what JAX does where it has none.

    Where JAX left sizes open, in calls of exported programs, they follow from the arguments.
    """
    import jax

    try:
        found: bytes = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    except jax.errors.JaxRuntimeError as error:
        if "dynamic" not in str(error):
            raise
        from lowtide.frontend import stablehlo_library as library

        code = library.bytecode_of(lowered.compiler_ir("stablehlo"))
        return library.hlo_of(library.with_inferred_sizes(code))
    return found


def _leaves(tree: Any) -> list[Any]:
    import jax

    return jax.tree_util.tree_leaves(tree)


def _refuse_others(types: Sequence[Any]) -> None:
    """Raise UnsupportedOpError at a type that is none of an array."""
    import jax

    for x in types:
        if not isinstance(x, jax.core.ShapedArray | jax.ShapeDtypeStruct):
            raise UnsupportedOpError(
                f"a value of type {x} goes in or out of the function: only arrays and keys of "
                "random numbers may; hand in an array and return it, or let jax.jit run the "
                "function (fallback=True)"
            )


def refuse_several_devices(places: Sequence[Any]) -> None:
    """Raise UnsupportedOpError where arguments lie on several devices, as these shardings say."""
    if places:
        raise UnsupportedOpError(
            f"an argument lies on {len(places[0].device_set)} devices: native code runs on "
            "one; gather it there (jax.device_put(x, jax.devices()[0])), or let jax.jit run the "
            "function (fallback=True)"
        )


def held_functions(module: Module) -> tuple[HostFunction, ...]:
    """Return the Python functions that a module calls; raises UnsupportedOpError for a lost one."""
    found = [
        function_named(x.annotations.backend_config)
        for computation in module.computations.values()
        for x in computation.instructions.values()
        if is_python_call(x)
    ]
    return tuple(found)


def with_masks_selected(module: Module) -> Module:
    """Return a program in which products with truth values are the selections of XLA:CPU.

    It is a copy, or the module itself where it has no such product. Functions that make masks
    (`jax.nn.one_hot`) are written out before, as there; in programs of several devices calls stay.
    The passes are loaded where there may be such a product.
    """
    instructions = [x for c in module.computations.values() for x in c.instructions.values()]
    opcodes = {x.opcode for x in instructions}
    if Opcode.MULTIPLY not in opcodes or not any(map(_is_mask, instructions)):
        return module
    module = clone_module(module)
    if Opcode.CALL in opcodes and module.num_partitions == 1:
        from lowtide.transforms.inline_calls import inline_calls

        inline_calls(module)
    from lowtide.transforms import masked_products

    masked_products.select_masked(module)
    return module


def _is_mask(x: Instruction) -> bool:
    """Whether a truth value becomes a number of the types for which that counts."""
    if x.opcode is not Opcode.CONVERT or x.operands[0].shape.element_type is not ElementType.PRED:
        return False
    type_ = x.shape.element_type
    return type_.is_floating or type_.is_complex


def refuse_callbacks(module: Module) -> None:
    """Raise UnsupportedOpError at the first call back into Python, if there is one."""
    for computation in module.computations.values():
        for instruction in computation.instructions.values():
            if _is_callback(instruction):
                raise unsupported(
                    instruction,
                    "a call back into Python cannot be compiled: take it out of the function, or "
                    "let jax.jit run all of it (fallback=True)",
                )


def _is_callback(instruction: Instruction) -> bool:
    if instruction.opcode is not Opcode.CUSTOM_CALL:
        return False
    target = instruction.attributes_as(CustomCall).target
    return _CALLBACK in target or target.startswith(_PYTHON_PREFIX)


# -- keys ----------------------------------------------------------------------------------------


@cache
def _private_state() -> Any:
    try:
        from jax._src.config import trace_context
    except ImportError:
        return None
    return trace_context


def _public_state() -> tuple[Any, ...]:
    import jax

    config: Any = jax.config
    return (
        config.jax_enable_x64,
        config.jax_default_matmul_precision,
        config.jax_numpy_dtype_promotion,
        config.jax_numpy_rank_promotion,
        config.jax_default_prng_impl,
    )


def trace_state() -> Any:
    """Return the function whose result is all of JAX's settings on which a trace depends, x64 too.

    It is the key of JAX's own caches where this version of JAX has it at its usual place, else the
    public settings.
    """
    return _private_state() or _public_state


def closes_over_tracers(traced: Any) -> bool:
    """Whether a function, of which this is JAX's trace, uses values that JAX is tracing itself.

    That is a function made inside of `jax.grad`, `jax.vmap` or `jax.jit`. False where this version
    of JAX does not tell.
    """
    import jax

    return any(isinstance(x, jax.core.Tracer) for x in getattr(traced, "_consts", ()))
