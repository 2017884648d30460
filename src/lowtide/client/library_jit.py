"""Functions that JAX, or a library on top of it, has jitted: their modules for some arguments.

Libraries hand a function's arguments to `jax.jit` in their own way. `equinox.filter_jit` packs the
arrays among them, and takes for constants what is no `jax.Array`; here arrays keep the names that
the user gave them, and `jax.ShapeDtypeStruct`s stand for arrays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, Final, NamedTuple

from lowtide.client.jit.jax_arrays import is_key_type
from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.ir import Module

_PACKED: Final = re.compile(r"dynamic_(?:no)?donate\['(?P<part>first|rest)'\]\[(?P<number>\d+)\]")
"""The name of an array behind `equinox.filter_jit`, which hands on the leaves of its first argument
as one tuple, and those of all others as another one."""


class ArgumentLeaves(NamedTuple):
    """The leaves of positional and keyword arguments in order, and the tree of both together."""

    names: list[str]
    values: list[Any]
    tree: Any


def argument_leaves(
    function: Callable[..., Any], specs: Sequence[Any], keywords: Mapping[str, Any]
) -> ArgumentLeaves:
    """Return the leaves of arguments, named as JAX does, e.g. `state.params['w']`."""
    from jax.tree_util import keystr, tree_flatten_with_path

    positional = _positional(function, len(specs))
    paths, tree = tree_flatten_with_path((tuple(specs), dict(keywords)))
    names = []
    for path, _ in paths:
        start = positional[path[1].idx] if path[0].idx == 0 else path[1].key
        names.append(start + keystr(path[2:]))
    return ArgumentLeaves(names, [value for _, value in paths], tree)


def ranks_of_keys(
    function: Callable[..., Any], specs: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[str, int]:
    """Return the ranks of the keys of random numbers among arguments, by name.

    In HLO they are arrays of numbers, which have a dimension more.
    """
    found = argument_leaves(function, specs, keywords)
    return {
        name: len(x.shape)
        for name, x in zip(found.names, found.values, strict=True)
        if hasattr(x, "dtype") and is_key_type(x.dtype)
    }


def module_of_jitted(
    function: Any,
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
    program_of: Callable[[Any], Any],
) -> Module:
    """Return the module of a jitted function, which has `lower`, for arguments or their shapes.

    `program_of` finds JAX's own program in what a library's `lower` returns.

    JAX's HLO gives a result the layout of the transpose behind it, which is not how programs
    return it: ends lie row-major, which is the default. Other layouts that the function asks for
    are not in the HLO.
    """
    hlo = program_of(_lowered(function, specs, keywords)).compiler_ir("hlo")
    module = read_hlo_proto(hlo.as_serialized_hlo_module_proto())
    module.lay_out_entry_by_default()
    _name_as_given(module, function, specs, keywords)
    return module


def _lowered(function: Any, specs: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What `lower` returns; a library's is called with tracers, which are arrays to it, as shapes.

    Tracers come from a trace that `jax.eval_shape` makes and whose result nothing reads.
    """
    import jax
    from jax.tree_util import tree_flatten, tree_unflatten

    leaves, tree = tree_flatten((tuple(specs), dict(keywords)))
    shapes = {i: x for i, x in enumerate(leaves) if isinstance(x, jax.ShapeDtypeStruct)}
    if not shapes or type(function).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return function.lower(*specs, **keywords)
    lowered = []

    def trace(traced: dict[int, Any]) -> None:
        given, named = tree_unflatten(tree, [traced.get(i, x) for i, x in enumerate(leaves)])
        lowered.append(function.lower(*given, **named))

    jax.eval_shape(trace, shapes)
    return lowered[0]


def _name_as_given(
    module: Module, function: Any, specs: Sequence[Any], keywords: Mapping[str, Any]
) -> None:
    """Name parameters as the user's function does, where a library handed them on as packed."""
    from jax.tree_util import tree_leaves

    found = [(x, _PACKED.fullmatch(x.metadata.op_name)) for x in module.entry.parameters]
    packed = [(x, match) for x, match in found if match is not None]
    if not packed:
        return
    bound = signature(function).bind(*specs, **keywords)
    names = argument_leaves(function, bound.args, bound.kwargs).names
    in_first = len(tree_leaves(bound.args[:1]))
    for parameter, match in packed:
        number = int(match["number"]) + (in_first if match["part"] == "rest" else 0)
        parameter.set_metadata(replace(parameter.metadata, op_name=names[number]))


def _positional(function: Callable[..., Any], count: int) -> list[str]:
    """The names of so many positional arguments; their numbers where the function has none."""
    try:
        names = list(signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return [*names, *map(str, range(len(names), count))][:count]
