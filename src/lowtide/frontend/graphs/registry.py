"""The table of op kernels: for each op of a framework, the function that builds it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from lowtide.frontend.graphs.graph import GraphError
from lowtide.ir.errors import UnsupportedOpError
from lowtide.records import dataclass
from lowtide.suggestions import nearest, nearest_name

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


def name_table(text: str) -> dict[str, str]:
    """Return names of operations by a framework's names, from words FRAMEWORK=OPERATION."""
    return {name: found for name, _, found in [x.partition("=") for x in text.split()]}


def op_names(domain: str) -> list[str]:
    """Return the ops of a domain that have a kernel, sorted."""
    return sorted([name for known, name in _KERNELS if known == domain])


def kernels_for(nodes: Sequence[GraphNode], domain: str) -> list[OpKernel]:
    """Return the kernels of nodes; raises as `kernel_for`, for all ops without one at once."""
    check_known(nodes, domain)
    return [kernel_for(node, domain) for node in nodes]


def check_known(nodes: Iterable[GraphNode], domain: str, besides: Container[str] = ()) -> None:
    """Raise UnsupportedOpError, which names all of them, for ops that have no kernel.

    Those in `besides` count as if they had one.
    """
    unknown: dict[str, list[GraphNode]] = {}
    for node in nodes:
        if (domain, node.op) not in _KERNELS and node.op not in besides:
            unknown.setdefault(node.op, []).append(node)
    if not unknown:
        return
    if len(unknown) == 1:
        ((first, *_),) = unknown.values()
        raise _unsupported(first, domain)
    known = op_names(domain)
    listed = [
        f"{op!r} (node {found[0].name!r}{_more(found)}{_near(op, known)})"
        for op, found in unknown.items()
    ]
    raise UnsupportedOpError(
        f"there are no kernels for {len(unknown)} ops among the {len(known)} of {domain}: "
        f"{', '.join(listed)}"
    )


def _near(op: str, known: Sequence[str]) -> str:
    found = nearest_name(op, known)
    return f"; nearest: {found!r}" if found else ""


def _more(nodes: Sequence[GraphNode]) -> str:
    return f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""


def _unsupported(node: GraphNode, domain: str) -> UnsupportedOpError:
    known = op_names(domain)
    return UnsupportedOpError(
        f"node {node.name!r}: there is no kernel for {node.op!r} among the {len(known)} ops of "
        f"{domain}{nearest(node.op, known)}"
    )


def kernel_for(node: GraphNode, domain: str) -> OpKernel:
    """Return the kernel of a node.

    Raises UnsupportedOpError, with the nearest name, for an op without one, and GraphError for a
    number of inputs that the op does not take.
    """
    kernel = _KERNELS.get((domain, node.op))
    if kernel is None:
        raise _unsupported(node, domain)
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
