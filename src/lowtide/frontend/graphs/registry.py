"""The table of op kernels: for each op of a framework, the function that builds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from lowtide.frontend.graphs.errors import GraphError
from lowtide.ir.errors import UnsupportedOpError
from lowtide.ir.suggestions import nearest
from lowtide.records import dataclass

if TYPE_CHECKING:
    from lowtide.frontend.graphs.context import OpKernelContext
    from lowtide.frontend.graphs.graph import GraphNode

Compute: TypeAlias = "Callable[[OpKernelContext], None]"

ANY: Final = 1 << 30
"""As many inputs as there are."""


@dataclass(frozen=True, slots=True)
class OpKernel:
    """How one op of a framework is built; it takes `least` to `most` inputs, ends included."""

    domain: str
    name: str
    compute: Compute
    least: int
    most: int


_KERNELS: Final[dict[tuple[str, str], OpKernel]] = {}


def op(
    *names: str, domain: str, inputs: int | tuple[int, int] = (0, ANY)
) -> Callable[[Compute], Compute]:
    """Return a decorator that registers a function as the kernel of ops of a domain.

    `inputs` is the number of inputs, or the least and the greatest one.
    """
    least, most = (inputs, inputs) if isinstance(inputs, int) else inputs

    def register(compute: Compute) -> Compute:
        for name in names:
            if (domain, name) in _KERNELS:
                raise ValueError(f"{domain} has a kernel for {name} already")
            _KERNELS[domain, name] = OpKernel(domain, name, compute, least, most)
        return compute

    return register


def op_names(domain: str) -> list[str]:
    """Return the ops of a domain that have a kernel, sorted."""
    return sorted([name for known, name in _KERNELS if known == domain])


def kernel_for(node: GraphNode, domain: str) -> OpKernel:
    """Return the kernel of a node.

    Raises UnsupportedOpError, with the nearest name, for an op without one, and GraphError for a
    number of inputs that the op does not take.
    """
    kernel = _KERNELS.get((domain, node.op))
    if kernel is None:
        known = op_names(domain)
        raise UnsupportedOpError(
            f"node {node.name!r}: there is no kernel for {node.op!r} among the {len(known)} ops of "
            f"{domain}{nearest(node.op, known)}"
        )
    count = len(node.inputs)
    if not kernel.least <= count <= kernel.most:
        raise GraphError(f"expected {_count(kernel)}, found {count}", node=node.name, op=node.op)
    return kernel


def _count(kernel: OpKernel) -> str:
    if kernel.most == ANY:
        return f"at least {kernel.least} inputs"
    if kernel.least == kernel.most:
        return f"{kernel.least} inputs"
    return f"{kernel.least} to {kernel.most} inputs"
