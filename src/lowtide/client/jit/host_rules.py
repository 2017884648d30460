"""Rules by which JAX lowers calls back into Python to calls of functions of this process.

They hold for `lowtide.jit`, and for the platform of the plugin. A function gets JAX arrays on the
processor, as JAX promises: on JAX's own CPU platform if that is there, else on the default one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final, TypeAlias

import numpy as np

from lowtide.host_calls.functions import NUMBER, TARGET, HostFunction

Rule: TypeAlias = Callable[..., Any]
"""Takes JAX's context, the operands, and the parameters of an operation to its results."""


@cache
def host_rules() -> tuple[tuple[Any, Rule], ...]:
    """Return the operations of JAX that call Python, and the rules for them."""
    from jax._src import buffer_callback, callback, debugging

    found: Any = callback
    shown: Any = debugging
    buffers: Any = buffer_callback
    return (
        (buffers.buffer_callback_p, _in_buffers),
        (found.pure_callback_p, _pure),
        (found.io_callback_p, _effectful),
        (shown.debug_callback_p, _debugging),
        (shown.debug_print_p, _printing),
    )


def _pure(ctx: Any, *operands: Any, callback: Any, sharding: Any, **parameters: Any) -> Any:
    return _call(ctx, operands, "jax.pure_callback", callback, sharding)


def _effectful(
    ctx: Any, *operands: Any, callback: Any, sharding: Any, ordered: bool, **parameters: Any
) -> Any:
    from jax._src import callback as home

    known: Any = home
    effect = known._OrderedIOEffect if ordered else known._IOEffect
    return _call(ctx, operands, "jax.io_callback", callback, sharding, effect)


def _in_buffers(
    ctx: Any,
    *operands: Any,
    callback: Any,
    in_tree: Any,
    out_tree: Any,
    input_output_aliases: Any,
    has_side_effect: bool,
    **parameters: Any,
) -> Any:
    from jax._src import buffer_callback

    from lowtide.client.jit.buffer_rule import in_buffers  # Programs without any load nothing.

    home: Any = buffer_callback
    effect = home._BufferCallbackEffect if has_side_effect else None
    function = in_buffers(callback, (in_tree, out_tree), ctx.avals_out, input_output_aliases)
    return _call(ctx, operands, "jax.buffer_callback", function, None, effect, as_arrays=False)


def _debugging(
    ctx: Any, *operands: Any, callback: Any, effect: Any, partitioned: bool, **parameters: Any
) -> Any:
    from jax._src import debugging
    from jax._src.interpreters import mlir

    place = ctx.module_context.axis_context
    if _is_partly_manual(place):
        # JAX's own way: the first device along the other axes makes the call.
        shown: Any = debugging
        rules: Any = mlir
        given = {"callback": callback, "effect": effect, "partitioned": partitioned}
        call = partial(shown._debug_callback_partial_auto, place, **given, **parameters)
        return rules.lower_fun(call)(ctx, *operands)

    def silent(*arrays: Any) -> tuple[()]:
        callback(*arrays)
        return ()

    name = "jax.debug.callback"
    return _call(ctx, operands, name, silent, None, effect, partitioned=partitioned)


def _is_partly_manual(place: Any) -> bool:
    """Whether a part of a program is written for one device along some axes of its mesh only."""
    names = getattr(place, "manual_axes", None)
    return names is not None and frozenset(place.mesh.axis_names) != frozenset(names)


def _printing(ctx: Any, *operands: Any, ordered: bool, **parameters: Any) -> Any:
    from jax._src import debugging

    shown: Any = debugging
    effect = shown.ordered_debug_effect if ordered else shown.debug_effect
    given = {"effect": effect, "partitioned": parameters["partitioned"]}
    return _debugging(ctx, *operands, callback=printer(parameters), **given)


def printer(parameters: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function that prints arrays as the parameters of JAX's operation say."""
    from jax._src import debugging

    shown: Any = debugging
    options = dict(parameters["np_printoptions"])
    rest = parameters["has_placeholders"], parameters["logging_record"]
    printing = partial(shown._format_print_callback, parameters["fmt"], options, *rest)
    made: Callable[..., Any] = shown._make_flat_callback(
        parameters["in_tree"], printing, parameters["static_args"]
    )
    return made


# -- the custom call -----------------------------------------------------------------------------


def _call(
    ctx: Any,
    operands: Sequence[Any],
    name: str,
    callback: Any,
    sharding: Any,
    effect: Any = None,
    *,
    partitioned: bool = False,
    as_arrays: bool = True,
) -> Any:
    """Write a call, and return its results; with an ordered effect it takes and makes a token.

    One that is partitioned is made by each device with what it has of the operands. The function
    gets JAX's arrays, or NumPy's if not `as_arrays`.
    """
    from jax._src import callback as home
    from jax._src import effects
    from jax._src.interpreters import mlir

    known: Any = home
    rules: Any = mlir
    ordered = effect is not None and effects.ordered_effects.contains(effect)
    function = HostFunction(_on_arrays(callback) if as_arrays else callback, name)
    given = ctx.module_context.axis_context, sharding, ctx.avals_out
    results = write_call(
        ctx,
        operands,
        function,
        token=ctx.tokens_in.get(effect) if ordered else None,
        has_side_effect=effect is not None,
        partitioned=partitioned,
        sharding=None if partitioned else known._callback_op_sharding(*given),
    )
    if ordered:
        tokens = rules.TokenSet({effect: results.pop(0)})
        ctx.set_tokens_out(ctx.tokens_in.update_tokens(tokens))
    return results


def write_call(
    ctx: Any,
    operands: Sequence[Any],
    function: HostFunction,
    *,
    token: Any,
    has_side_effect: bool,
    partitioned: bool,
    sharding: Any,
) -> list[Any]:
    """Write a call of a function, and return its results; behind a token that of the call is first.

    The program of the context holds the function. A sharding, in the form of the program, has one
    of several devices make the call; one that is partitioned is made by each with its tiles.
    """
    from jax._src import ffi

    given = ctx
    if token is not None:
        kind: Any = _token_type()
        operands = [token, *operands]
        given = ctx.replace(avals_in=[kind, *ctx.avals_in], avals_out=[kind, *ctx.avals_out])
    ctx.module_context.add_keepalive(function)
    # So JAX knows that the program calls Python: it waits for it at barriers and does not store it.
    ctx.module_context.add_host_callback(function.function)
    write: Any = ffi.build_ffi_lowering_function(TARGET, has_side_effect=has_side_effect)
    call = write(given, *operands, **{NUMBER: np.uint64(function.number)})
    if partitioned:
        _ask_for_tiles(call)
    elif sharding is not None:
        _set_sharding(ctx, call, sharding, ordered=token is not None)
    return list(call.results)


def _token_type() -> Any:
    from jax._src import core

    return core.abstract_token


def _ask_for_tiles(call: Any) -> None:
    """Have each device make a call."""
    from jaxlib.mlir import ir

    from lowtide.spmd.annotations import TILES_KEY  # Programs of one device load nothing.

    library: Any = ir
    mark = {TILES_KEY: library.StringAttr.get("true")}
    call.attributes["mhlo.frontend_attributes"] = library.DictAttr.get(mark)


def _set_sharding(ctx: Any, call: Any, sharding: Any, *, ordered: bool) -> None:
    """Have one of several devices make a call."""
    from jax._src.interpreters import mlir

    if ordered and ctx.avals_out and hasattr(sharding, "shardings"):
        first = replace(sharding.shardings[0], dim_shardings=())
        sharding = type(sharding)((first, *sharding.shardings))
    rules: Any = mlir
    rules.set_sharding(ctx.module_context, call, sharding)


# -- the call ------------------------------------------------------------------------------------


def _on_arrays(callback: Any) -> Callable[..., Sequence[Any]]:
    """Return the function from arrays to arrays that makes JAX's arrays for one of its callbacks.

    Numbers count as 64 bits wide where they do so now, when the program is made.
    """
    import jax

    config: Any = jax.config
    wide = bool(config.jax_enable_x64)

    def called(*arrays: Any) -> Sequence[Any]:
        with _as_when_made(wide) as device:
            results = callback(*jax.device_put(arrays, device))
            return [_canonical(np.asarray(x)) for x in results]

    return called


@contextmanager
def _as_when_made(wide: bool) -> Iterator[Any]:
    """Set what a callback may rely on, and yield the device of its arrays."""
    import jax

    device = _device()
    settings: Any = jax
    with settings.enable_x64(wide), jax.default_device(device), jax.transfer_guard("allow"):
        yield device


def _device() -> Any:
    import jax

    try:
        found = jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        found = None
    if found is not None and found.client.platform == "cpu":  # Another may answer to the name.
        return found
    config: Any = jax.config
    chosen = config.jax_default_device
    return chosen if isinstance(chosen, jax.Device) else jax.local_devices()[0]


def _canonical(x: Any) -> Any:
    """Return an array as JAX takes it: of at most 32 bits per number where 64 do not count."""
    import jax

    return x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False)


LOWERING: Final = "_private_parameters"
"""The argument of JAX's `lower` that takes rules of one's own."""


@cache
def lowering_parameters() -> dict[str, Any]:
    """Return the arguments by which JAX's `lower` follows these rules on any platform."""
    from jax._src.interpreters import mlir

    known: Any = mlir
    return {LOWERING: known.LoweringParameters(override_lowering_rules=host_rules())}
