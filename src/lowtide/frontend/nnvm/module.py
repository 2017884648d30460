"""Shapes of all entries of a graph, and the module that computes it: both by the same kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Final

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.compiler import GraphCompiler, name_ends
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.expression import Expression
from lowtide.frontend.graphs.graph import GraphError, GraphNode
from lowtide.frontend.graphs.registry import kernel_for, op_names
from lowtide.frontend.nnvm.document import NnvmDocument, NnvmDocumentNode, NnvmEntry
from lowtide.frontend.nnvm.kernels import DOMAIN
from lowtide.frontend.nnvm.networks import WEIGHTS
from lowtide.ir import Module, array_shape
from lowtide.ir.element_type import BY_KEYWORD, ElementType
from lowtide.ir.errors import InputError, UnsupportedOpError
from lowtide.passes.dead_code import remove_dead_code
from lowtide.records import dataclass
from lowtide.suggestions import nearest

_TYPES: Final = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "bool": "pred",
    **{f"int{n}": f"s{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
}

Shapes = Mapping[str, Sequence[int]]


def with_shapes(document: NnvmDocument, shapes: Shapes) -> NnvmDocument:
    """Return a graph in which the shape and the type of each entry are known.

    `shapes` are those of arguments by name. Where the file has all of them, and none is given, they
    are taken; else kernels say what follows. Raises InputError for an unknown argument and for
    shapes that are still missing, all of them, UnsupportedOpError for operations without a kernel.
    """
    _check_names(document, shapes)
    if not shapes and all(x is not None for x in document.shapes):
        types = [x or "float32" for x in document.types]
        return replace(document, types=tuple(types))
    built = _Walk(document, shapes).run()
    found = [x.dimensions if x is not None else () for x in built.values]
    kinds = [_name_of(x.element_type) if x is not None else "float32" for x in built.values]
    return replace(document, shapes=tuple(found), types=tuple(kinds))


def module_of(document: NnvmDocument, shapes: Shapes) -> Module:
    """Return the module of a graph; its parameters are the arguments, in the order of the nodes.

    Raises as `with_shapes`, and for graphs whose operations are functions of Relay's compiler.
    """
    _check_names(document, shapes)
    if document.is_compiled:
        raise UnsupportedOpError(
            f"{document.file}: its operations are functions of Relay's compiler, which the file "
            "does not have; `plan` and `explain` take it"
        )
    return _Walk(document, shapes).run().module()


def _check_names(document: NnvmDocument, shapes: Shapes) -> None:
    known = [x.name for x in document.nodes if x.op is None]
    for name in shapes:
        if name not in known:
            text = f"there is no argument {name!r}{nearest(name, known)}"
            raise InputError(text, file=document.file)


def _name_of(kind: ElementType) -> str:
    (found,) = [x for x, y in _TYPES.items() if y == kind.value] or [kind.value]
    return found


@dataclass(frozen=True, eq=False, slots=True)
class _Built:
    """A graph while it is built: the value of each entry, None where no kernel gives it."""

    document: NnvmDocument
    builder: Builder
    values: list[Op | None]

    def module(self) -> Module:
        """The module of its heads."""
        document = self.document
        heads = [self.values[document.entry(x)] for x in document.heads]
        missing = [x for x, y in zip(document.heads, heads, strict=True) if y is None]
        if missing:
            node = document.nodes[missing[0].node]
            text = f"node {node.name!r} ({node.op}) has no output {missing[0].output} here"
            raise UnsupportedOpError(f"{document.file}: {text}")
        found = self.builder.build(self.builder.tuple([x for x in heads if x is not None]))
        remove_dead_code(found)
        arguments = [x.name for x in document.nodes if x.op is None]
        name_ends(found, arguments, [_head_name(document, x) for x in document.heads])
        return found


def _head_name(document: NnvmDocument, head: NnvmEntry) -> str:
    node = document.nodes[head.node]
    return node.name if node.count == 1 else f"{node.name}:{head.output}"


class _Walk:
    """One pass over the nodes, which gives arguments their shapes when they are first read."""

    def __init__(self, document: NnvmDocument, shapes: Shapes) -> None:
        for name in ("kernels", "networks"):
            import_module(f"lowtide.frontend.nnvm.{name}")
        self.document = document
        self.builder = Builder("graph")
        self.compiler = GraphCompiler(DOMAIN, self.builder)
        self.values: list[Op | None] = [None] * document.entry_count
        arguments = [x for x in document.nodes if x.op is None]
        self.numbers = {x.name: number for number, x in enumerate(arguments)}
        self.known = {
            x.name: tuple(shapes[x.name]) if x.name in shapes else self._own_shape(x)
            for x in arguments
        }
        self.missing: list[str] = []

    def run(self) -> _Built:
        """Build all nodes; raises where a shape is missing or an operation has no kernel."""
        self._check_kernels()
        for node in self.document.nodes:
            if node.op is None:
                self._declare(node)
        for node in self.document.nodes:
            if node.op is not None:
                self._compute(node)
        for node in self.document.nodes:
            if node.op is None and self.values[node.first] is None:
                self.missing.append(node.name)
        if self.missing:
            shown = ", ".join(dict.fromkeys(self.missing))
            text = (
                f"the shape of {shown} is not known; give it: --shape {self.missing[0]}=1,3,224,224"
            )
            raise InputError(text, file=self.document.file)
        return _Built(self.document, self.builder, self.values)

    def _own_shape(self, node: NnvmDocumentNode) -> tuple[int, ...] | None:
        """The shape of an argument that its file has: by entry, or as an attribute of the node."""
        found = self.document.shapes[node.first]
        text = node.attributes.get("__shape__", "")
        if found is None and text:
            numbers = [x.strip() for x in text.strip("()[] ").split(",") if x.strip()]
            if numbers and all(x.isdigit() and int(x) > 0 for x in numbers):
                return tuple([int(x) for x in numbers])
        return found

    def _check_kernels(self) -> None:
        known = op_names(DOMAIN)
        missing: dict[str, str] = {}
        for node in self.document.nodes:
            if node.op is not None and node.op not in known:
                missing.setdefault(node.op, node.name)
        if missing:
            shown = "; ".join([f"{x} (node {y!r}){nearest(x, known)}" for x, y in missing.items()])
            raise UnsupportedOpError(f"{self.document.file}: there is no kernel for {shown}")

    def _declare(self, node: NnvmDocumentNode, shape: tuple[int, ...] | None = None) -> None:
        """Make an argument a parameter, once its shape is known."""
        sizes = self.known[node.name] if shape is None else shape
        if sizes is None or self.values[node.first] is not None:
            return
        name = self.document.types[node.first] or "float32"
        if name not in _TYPES:
            raise InputError(
                f"argument {node.name!r} is {name}, which no array is", file=self.document.file
            )
        kind = BY_KEYWORD[_TYPES[name]]
        number = self.numbers[node.name]
        self.values[node.first] = self.builder.parameter(
            number, array_shape(kind, sizes), node.name
        )

    def _compute(self, node: NnvmDocumentNode) -> None:
        """Build a node, whose weights get the shapes that follow; left out where one is missing."""
        given = [self.document.entry(x) for x in node.inputs]
        graph_node = GraphNode(
            node.name, node.op or "", tuple(map(str, given)), (), node.attributes
        )
        first = self.values[given[0]] if given else None
        rule = WEIGHTS.get(node.op or "")
        if rule is not None and first is not None:
            context = OpKernelContext(graph_node, [], self.compiler, {})
            shapes = rule(context, first.dimensions)
            for entry, shape in zip(node.inputs[1:], shapes, strict=False):
                source = self.document.nodes[entry.node]
                if source.op is None and self.values[source.first] is None:
                    self._declare(source, shape)
        values = [self.values[x] for x in given]
        if any(x is None for x in values):
            return
        self._build(node, graph_node, [x for x in values if x is not None])

    def _build(self, node: NnvmDocumentNode, graph_node: GraphNode, values: list[Op]) -> None:
        kernel = kernel_for(graph_node, DOMAIN)
        found: dict[str, Expression] = {str(i): Expression(x) for i, x in enumerate(values)}
        step = replace(
            graph_node,
            inputs=tuple(map(str, range(len(values)))),
            outputs=tuple([f"out {i}" for i in range(1)]),
        )
        context = self.compiler.stepped(step, kernel, found)
        for number, value in enumerate(context.outputs[: node.count]):
            self.values[node.first + number] = value.op(self.builder)
        declared = self.document.shapes[node.first]
        made = self.values[node.first]
        if (
            declared is not None
            and made is not None
            and math.prod(declared) != made.shape.element_count
        ):
            text = f"the file says {list(declared)}, and it gives {list(made.dimensions)}"
            raise GraphError(text, node=node.name, op=node.op or "")
