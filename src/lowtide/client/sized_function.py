"""A function for JAX as a program of several sizes: it is traced anew at each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from lowtide.fitting.dimensions import NamedDimension, NamedLeaf, SpecializedError
from lowtide.fitting.fit import SizedProgram
from lowtide.ir import Module


def sized_function(
    lower: Callable[..., Module],
    function: Callable[..., Any],
    specs: Sequence[Any],
    keywords: Mapping[str, Any],
    dimension: NamedDimension,
) -> SizedProgram:
    """Return a function at all sizes of a dimension of its arguments `specs` and `keywords`.

    `lower` makes a module of arguments. Raises DimensionError for a dimension that the arguments do
    not have; `build` raises SpecializedError where the function cannot be traced at a size.
    """
    import jax
    from jax.tree_util import keystr, tree_flatten_with_path, tree_unflatten

    bound = _bound(function, specs, keywords)
    paths, tree = tree_flatten_with_path((tuple(specs), dict(keywords)))
    leaves = []
    for number, (path, value) in enumerate(paths):
        place = path[0].idx, path[1].idx if path[0].idx == 0 else path[1].key
        name = bound[place] + keystr(path[2:])
        leaves.append(NamedLeaf(name, (number,), tuple(getattr(value, "shape", ()))))
    found = dimension.leaves(leaves)
    given = found[0][0].sizes[found[0][1]]

    shaped: Callable[..., Any] = jax.ShapeDtypeStruct

    def build(size: int) -> Module:
        values = [value for _, value in paths]
        for leaf, axis in found:
            number = leaf.key[0]
            old = values[number]
            sizes = list(old.shape)
            sizes[axis] = size
            values[number] = shaped(tuple(sizes), old.dtype)
        arguments, named = tree_unflatten(tree, values)
        try:
            return lower(*arguments, **named)
        except (TypeError, ValueError, AssertionError, IndexError) as error:
            reason = str(error).partition("\n")[0]
            raise SpecializedError(
                f"the function cannot be traced at {dimension.name} = {size}: {reason}", None
            ) from None

    return SizedProgram(build, given, 1, dimension)


def _bound(
    function: Callable[..., Any], specs: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[tuple[int, int | str], str]:
    """The names of the arguments, by position and by keyword."""
    try:
        names = list(signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    names += [str(i) for i in range(len(names), len(specs))]
    found: dict[tuple[int, int | str], str] = {(0, i): names[i] for i in range(len(specs))}
    found.update({(1, name): name for name in keywords})
    return found
