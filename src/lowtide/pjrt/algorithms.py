"""Linear algebra for which programs name an algorithm: here is one for each, taken for any name.

JAX's rule for CPUs refuses the names of algorithms that GPUs and TPUs have, and a part of the
eigenvalues. What is computed has no algorithm in it, so both are given here.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from lowtide.pjrt import PLATFORM

_KNOWN: Final = frozenset({"DEFAULT", "LAPACK", "QR"})
"""Algorithms that JAX's rules for CPUs take by name."""


def take_any_algorithm() -> None:
    """Have decompositions with an algorithm's name computed by what is here."""
    from jax._src.interpreters import mlir
    from jax._src.lax import linalg

    rules: Any = mlir
    home: Any = linalg
    table = rules._platform_specific_lowerings[PLATFORM]
    named = ((home.eig_p, "implementation"), (home.eigh_p, "algorithm"), (home.svd_p, "algorithm"))
    for primitive, parameter in named:
        own = partial(_named, table[primitive].rule, parameter)
        rules.register_lowering(primitive, own, platform=PLATFORM)
    own = partial(_part, home.eigh_p, table[home.eigh_p].rule)
    rules.register_lowering(home.eigh_p, own, platform=PLATFORM)


def _named(usual: Any, parameter: str, ctx: Any, *operands: Any, **parameters: Any) -> Any:
    """Lower a decomposition, without the name of an algorithm that is not here."""
    asked = parameters.get(parameter)
    if asked is not None and asked.name not in _KNOWN:
        parameters[parameter] = None
    return usual(ctx, *operands, **parameters)


def _part(eigh: Any, usual: Any, ctx: Any, *operands: Any, **parameters: Any) -> Any:
    """Lower eigenvalues from one number to another, as a part of all.

    Raises ValueError for numbers that a matrix does not have.
    """
    from jax._src.interpreters import mlir

    rules: Any = mlir
    part = parameters.pop("subset_by_index", None)
    if part is None:
        return usual(ctx, *operands, subset_by_index=None, **parameters)
    begin, end = part
    size = ctx.avals_in[0].shape[-1]
    if not 0 <= begin <= end <= size:
        raise ValueError(
            f"subset_by_index must be (first, end) with 0 <= first <= end <= {size}, found {part}"
        )

    def found(x: Any) -> list[Any]:
        """Return the vectors, which are columns, and the values."""
        results = eigh.bind(x, subset_by_index=None, **parameters)
        return [y[..., begin:end] for y in results]

    return rules.lower_fun(found, multiple_results=True)(ctx, *operands)
