"""Registration of ops that are one function of elements, from tables of names."""

from __future__ import annotations

from collections.abc import Mapping

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import Compute, op
from lowtide.frontend.graphs.shared import elementwise


def register_unary(domain: str, table: Mapping[str, str]) -> None:
    """Register ops of one input: their names, and those in `elementwise.UNARY`."""
    for name, function in table.items():
        op(name, domain=domain, inputs=1)(_unary(function))


def register_binary(domain: str, table: Mapping[str, str]) -> None:
    """Register ops of two inputs that broadcast: their names, and those in `elementwise.BINARY`."""
    for name, function in table.items():
        op(name, domain=domain, inputs=2)(_binary(function))


def _unary(function: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        context.set_output(0, elementwise.unary(function, context.builder, context.input(0)))

    return compute


def _binary(function: str) -> Compute:
    def compute(context: OpKernelContext) -> None:
        x, y = context.input(0), context.input(1)
        context.set_output(0, elementwise.binary(function, context.builder, x, y))

    return compute
