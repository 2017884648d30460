"""Lowering rules of JAX that ask for platforms by name, or for XLA's partitioner, for ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from lowtide.client.jit.host_rules import write_call
from lowtide.host_calls.functions import HostFunction
from lowtide.pjrt import PLATFORM

_PARTITIONED_BY_USER: Final = "CustomSPMDPartitioning"
"""The target of JAX's calls of functions that have a partitioner of their own."""


def emit_call(
    usual: Any,
    ctx: Any,
    callback: Callable[..., Sequence[Any]],
    token: Any,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    **parameters: Any,
) -> tuple[list[Any], Any, Any]:
    """Write a call of Python for a rule of a library; return results, the new token, what to hold.

    `callback` works on NumPy's arrays; `usual` writes the call for platforms that JAX knows.
    """
    if tuple(ctx.module_context.platforms) != (PLATFORM,):
        given = (callback, token, operands, operand_avals, result_avals)
        found: tuple[list[Any], Any, Any] = usual(ctx, *given, **parameters)
        return found
    function = HostFunction(partial(_arrays_of, callback), "emit_python_callback")
    results = write_call(
        ctx.replace(avals_in=list(operand_avals), avals_out=list(result_avals)),
        operands,
        function,
        token=token,
        has_side_effect=parameters["has_side_effect"],
        partitioned=parameters.get("partitioned", False),
        sharding=parameters.get("sharding"),
    )
    made = None if token is None else results.pop(0)
    return results, made, function


def _arrays_of(callback: Callable[..., Sequence[Any]], *arrays: Any) -> list[Any]:
    """Return the results of a function as arrays of the types that JAX has for them."""
    from jax._src import dtypes

    types: Any = dtypes
    return [types.canonicalize_value(np.asarray(x)) for x in callback(*arrays)]


def in_place(usual: Any, ctx: Any, *operands: Any, call: Any, **parameters: Any) -> Any:
    """Lower a function with a partitioner of its own to its operations, as part of the program.

    The rules of the user say how XLA is to divide what it cannot look into. Here it is the function
    itself that stands in the program, which is what those rules have to agree with; JAX's rule,
    `usual`, tells what is wrong with them.
    """
    from jax._src import core
    from jax._src.interpreters import mlir

    results = usual(ctx, *operands, call=call, **parameters)
    made: Any = results[0].owner if len(results) else None
    attributes = getattr(made, "attributes", {})
    if "call_target_name" not in attributes:
        return results
    if attributes["call_target_name"].value != _PARTITIONED_BY_USER:
        return results
    made.erase()
    lower: Any = mlir
    library: Any = core
    return lower.lower_fun(library.jaxpr_as_fun(call), multiple_results=True)(ctx, *operands)
