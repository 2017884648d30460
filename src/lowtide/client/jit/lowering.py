"""From a function that JAX traces to a module, and what JAX says of its arguments and results."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.ir import Instruction, LowtideError, Module, Opcode
from lowtide.ir.attributes import CustomCall
from lowtide.ir.errors import UnsupportedOpError, unsupported

_CALLBACK: Final = "callback"
"""What the targets of calls back into Python have in their names."""

_PYTHON_PREFIX: Final = "xla_python_"


@dataclass(frozen=True, eq=False, slots=True)
class LoweredProgram:
    """A module, the trees of its arguments and results, and one record per leaf.

    `arguments` has JAX's record of each dynamic argument (shape, dtype, whether it is donated), and
    `names` says how the caller wrote it; `results` has the type of each result.
    """

    module: Module
    in_tree: Any
    out_tree: Any
    arguments: tuple[Any, ...]
    names: tuple[str, ...]
    weak_types: tuple[bool, ...]
    results: tuple[Any, ...]

    @property
    def donated(self) -> tuple[int, ...]:
        """The numbers of the donated leaves."""
        return tuple([i for i, x in enumerate(self.arguments) if x.donated])


def program_of(traced: Any, lowered: Any) -> LoweredProgram:
    """Return the program of a function that keeps unused arguments, traced and lowered by JAX.

    Raises UnsupportedOpError, with the line of the user's program, for a call back into Python, and
    LowtideError where the module has other parameters than the function.
    """
    import jax

    hlo = lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    module = read_hlo_proto(hlo)
    refuse_callbacks(module)
    paths = jax.tree_util.tree_flatten_with_path(lowered.args_info)[0]
    arguments = tuple([info for _, info in paths])
    found = len(module.entry.parameters)
    if found != len(arguments):
        raise LowtideError(
            f"the function has {len(arguments)} arguments, its module {found} parameters: arrays "
            "that the function closes over have to be constants (jax_use_simplified_jaxpr_constants"
            " has to be off)"
        )
    return LoweredProgram(
        module,
        lowered.in_tree,
        lowered.out_tree,
        arguments,
        tuple([jax.tree_util.keystr(path) for path, _ in paths]),
        tuple([bool(x.weak_type) for x in jax.tree_util.tree_leaves(lowered.in_avals)]),
        tuple(jax.tree_util.tree_leaves(traced.out_info)),
    )


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


@cache
def _convert() -> Any:
    try:
        from jax._src.lax.lax import _convert_element_type
    except ImportError:
        return None
    return _convert_element_type


def weakly_typed(array: Any) -> Any:
    """Return a JAX array with a weak type; the array itself where JAX has no such function."""
    convert = _convert()
    return array if convert is None else convert(array, weak_type=True)


# -- random keys ---------------------------------------------------------------------------------


def is_key_type(dtype: Any) -> bool:
    """Whether a dtype is one of JAX's keys of random numbers, which are arrays of u32 in HLO."""
    import jax

    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def wrapped_key(data: Any, dtype: Any) -> Any:
    """Return JAX's key array of the given type with the numbers `data`."""
    import jax

    for name in _KEY_KINDS:
        if jax.eval_shape(lambda name=name: jax.random.key(0, impl=name)).dtype == dtype:
            return jax.random.wrap_key_data(jax.numpy.asarray(data), impl=name)
    raise UnsupportedOpError(
        f"a result of type {dtype} cannot be given back; return jax.random.key_data of it"
    )


_KEY_KINDS: Final = ("threefry2x32", "rbg", "unsafe_rbg")
"""The kinds of keys that JAX comes with."""
