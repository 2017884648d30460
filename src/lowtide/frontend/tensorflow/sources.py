"""Ops of TensorFlow that start or pass values: placeholders, constants, identities."""

from __future__ import annotations

import numpy as np

from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.dtypes import element_type_of
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.tensorflow.graph_def import DOMAIN, WITHOUT_OUTPUTS
from lowtide.ir.literal import DTYPES


@op("Placeholder", domain=DOMAIN, inputs=0)
def placeholder(context: OpKernelContext) -> None:
    """Refuse: a placeholder that is fed never runs."""
    raise context.error("no argument is given for it, and its shape is not known: feed a shape")


@op("Const", domain=DOMAIN, inputs=0)
def const(context: OpKernelContext) -> None:
    """Give the array in `value`."""
    value = context.attribute("value", np.asarray)
    if "dtype" in context.node.attributes:
        value = value.astype(DTYPES[context.attribute("dtype", element_type_of)])
    context.set_output(0, value)


@op(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "Snapshot",
    "CheckNumerics",
    "PlaceholderWithDefault",
    "EnsureShape",
    domain=DOMAIN,
    inputs=1,
)
def identity(context: OpKernelContext) -> None:
    """Give the input."""
    context.set_output(0, context.expression(0))


@op("IdentityN", domain=DOMAIN)
def identity_n(context: OpKernelContext) -> None:
    """Give all inputs."""
    for number in range(context.input_count):
        context.set_output(number, context.expression(number))


@op(*WITHOUT_OUTPUTS, domain=DOMAIN)
def no_op(context: OpKernelContext) -> None:
    """Give nothing."""
