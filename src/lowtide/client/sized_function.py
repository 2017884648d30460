"""A function for JAX as a program of several sizes: it is traced anew at each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lowtide.client.library_jit import argument_leaves
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
    from jax.tree_util import tree_unflatten

    given_leaves = argument_leaves(function, specs, keywords)
    leaves = [
        NamedLeaf(name, (number,), tuple(getattr(value, "shape", ())))
        for number, (name, value) in enumerate(
            zip(given_leaves.names, given_leaves.values, strict=True)
        )
    ]
    found = dimension.leaves(leaves)
    given = found[0][0].sizes[found[0][1]]

    shaped: Callable[..., Any] = jax.ShapeDtypeStruct

    def build(size: int) -> Module:
        values = list(given_leaves.values)
        for leaf, axis in found:
            number = leaf.key[0]
            old = values[number]
            sizes = list(old.shape)
            sizes[axis] = size
            values[number] = shaped(tuple(sizes), old.dtype)
        arguments, named = tree_unflatten(given_leaves.tree, values)
        try:
            return lower(*arguments, **named)
        except (TypeError, ValueError, AssertionError, IndexError) as error:
            reason = str(error).partition("\n")[0]
            raise SpecializedError(
                f"the function cannot be traced at {dimension.name} = {size}: {reason}", None
            ) from None

    return SizedProgram(build, given, 1, dimension)
