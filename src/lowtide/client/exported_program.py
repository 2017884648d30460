"""Programs of `jax.export` with symbolic sizes, at all sizes of one of their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from lowtide.fitting.dimensions import DimensionError, NamedDimension, SpecializedError
from lowtide.fitting.fit import SizedProgram
from lowtide.ir import Module
from lowtide.suggestions import nearest

_FIRST: Final = 16
"""The size that is planned first, where the program names none."""


def is_exported(candidate: object) -> bool:
    """Whether something is a `jax.export.Exported`, or works like one."""
    return all(hasattr(candidate, name) for name in ("in_avals", "in_tree", "call", "mlir_module"))


def exported_program(lower: Callable[..., Module], exported: Any, name: str) -> SizedProgram:
    """Return an exported program at all sizes of the symbol `name`.

    `lower` makes a module of a function and its arguments. Raises DimensionError for a symbol that
    the program does not have, and for sizes by others; `build` raises SpecializedError where the
    program cannot have a size.
    """
    sizes = [size for x in exported.in_avals for size in x.shape if not isinstance(size, int)]
    known = list(dict.fromkeys([str(size) for size in sizes]))
    if name not in known:
        there = ", ".join(known) or "none"
        raise DimensionError(
            f"the exported program has no size {name!r}{nearest(name, known)}; its symbolic sizes "
            f"are: {there}"
        )
    if len(known) > 1:
        others = ", ".join([x for x in known if x != name])
        raise DimensionError(
            f"the exported program has other symbolic sizes besides {name}: {others}; fit its call "
            "with the sizes of its arguments (lowtide.fit(exported.call, *specs, dim=...))"
        )
    axes = tuple(
        [
            (str(number), axis)
            for number, x in enumerate(exported.in_avals)
            for axis, size in enumerate(x.shape)
            if not isinstance(size, int)
        ]
    )

    def build(size: int) -> Module:
        return _at(lower, exported, name, size)

    return SizedProgram(build, _FIRST, 1, NamedDimension(name, axes))


def _at(lower: Callable[..., Module], exported: Any, name: str, size: int) -> Module:
    """The module of an exported program at a size; its argument names are the numbers of leaves."""
    import jax

    shaped: Callable[..., Any] = jax.ShapeDtypeStruct
    specs = [
        shaped(tuple([x if isinstance(x, int) else size for x in aval.shape]), aval.dtype)
        for aval in exported.in_avals
    ]
    arguments, keywords = jax.tree_util.tree_unflatten(exported.in_tree, specs)
    try:
        return lower(exported.call, arguments, keywords)
    except (TypeError, ValueError, AssertionError, IndexError) as error:
        reason = str(error).partition("\n")[0]
        raise SpecializedError(
            f"the exported program cannot be called at {name} = {size}: {reason}", None
        ) from None
