"""The graph of a module for Graphviz: what is computed, and how many bytes go where."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from lowtide.analysis.call_graph import executed_callees, executed_computations
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.attributes import Fusion, Parameter
from lowtide.ir.shape import Shape
from lowtide.ir.traversal import sequence
from lowtide.report.units import unit_for

_LISTED: Final = 12
"""How many different opcodes of a kernel are named."""

_LONGEST_SHAPE: Final = 80


def dot_text(module: Module) -> str:
    """Return a module in Graphviz's language: `dot -Tsvg FILE` draws it.

    Each instruction is a node with name, opcode, shape and bytes; edges go from operands to users
    and say how many bytes are read, dashed ones from instructions to the computations that they
    run, dotted ones along control dependencies. Computations that run as control flow are boxes;
    what a fusion or a reducer computes stands in the node. Colours tell kinds of operations apart.
    The first line is a comment that lists them.
    """
    drawn = executed_computations(module.entry)
    numbers: dict[Instruction, int] = {}
    for computation in drawn:
        for x in sequence(computation):
            numbers[x] = len(numbers)
    boxes = {computation: number for number, computation in enumerate(drawn)}
    legend = ", ".join([f"{name} {colour}" for name, colour in _COLOURS.items()])
    lines = [
        f"// {legend}",
        f"digraph {quoted(module.name)} {{",
        "  compound=true;",
        '  node [shape=box, style=filled, fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    for computation, number in boxes.items():
        lines += _box(computation, number, numbers)
    for x in numbers:
        lines += _edges(x, numbers, boxes)
    return "\n".join([*lines, "}", ""])


def quoted(text: str) -> str:
    """Return a string as DOT quotes it; line feeds become line breaks of the label."""
    plain = "".join([c if c.isprintable() or c == "\n" else "?" for c in text])
    escaped = plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _box(
    computation: Computation, number: int, numbers: Mapping[Instruction, int]
) -> Iterator[str]:
    """The nodes of a computation, in a box unless it is the entry."""
    indent = "  "
    if not computation.is_entry:
        yield f"  subgraph cluster_{number} {{"
        yield f"    label={quoted(computation.name)};"
        indent = "    "
    for x in sequence(computation):
        bold = ", penwidth=3" if x.is_root else ""
        colour = _COLOURS[_kind(x)]
        label = quoted(_label(x))
        yield f'{indent}n{numbers[x]} [label={label}, fillcolor="{colour}"{bold}];'
    if not computation.is_entry:
        yield "  }"


def _label(x: Instruction) -> str:
    what = x.opcode.value
    if isinstance(x.attributes, Fusion):
        what = f"{what} {x.attributes.kind}"
    elif isinstance(x.attributes, Parameter):
        what = f"{what} {x.attributes.number}"
    shape = x.shape.text(layout=False)
    if len(shape) > _LONGEST_SHAPE:
        shape = f"{shape[:_LONGEST_SHAPE]}..."
    lines = [x.name, what, f"{shape}  {_bytes(x.shape)}"]
    if not executed_callees(x):
        lines += [_opcodes(callee) for callee in x.called_computations]
    return "\n".join(lines)


def _opcodes(computation: Computation) -> str:
    """What is computed inside a kernel: the opcodes in order, with how many there are."""
    found = Counter([x.opcode.value for x in sequence(computation)])
    del found[Opcode.PARAMETER.value]
    names = [name if count == 1 else f"{name} x{count}" for name, count in found.items()]
    more = [f"and {len(names) - _LISTED} more"] if len(names) > _LISTED else []
    return ", ".join([*names[:_LISTED], *more])


def _bytes(shape: Shape) -> str:
    nbytes = shape.leaf_nbytes
    return unit_for(nbytes).text(nbytes)


def _edges(
    x: Instruction, numbers: Mapping[Instruction, int], boxes: Mapping[Computation, int]
) -> Iterator[str]:
    target = f"n{numbers[x]}"
    for operand in x.operands:
        read = x.shape if x.opcode is Opcode.GET_TUPLE_ELEMENT else operand.shape
        yield f"  n{numbers[operand]} -> {target} [label={quoted(_bytes(read))}];"
    for predecessor in x.control_predecessors:
        yield f"  n{numbers[predecessor]} -> {target} [style=dotted];"
    for role, callee in executed_callees(x):
        head = f"n{numbers[callee.root]}"
        box = f"lhead=cluster_{boxes[callee]}"
        yield f"  {target} -> {head} [style=dashed, {box}, label={quoted(role.value)}];"


# -- colours -----------------------------------------------------------------------------------

_COLOURS: Final[Mapping[str, str]] = {
    "input": "#cfe2f3",
    "constant": "#e0e0e0",
    "kernel": "#d9ead3",
    "contraction": "#f6b26b",
    "reduction": "#ffe599",
    "data movement": "#d9d2e9",
    "control flow": "#b6d7a8",
    "communication": "#ea9999",
    "custom call": "#f4cccc",
    "structure": "#ffffff",
    "elementwise": "#fff2cc",
}

_OPCODES: Final[Mapping[str, tuple[str, ...]]] = {
    "input": ("parameter", "infeed"),
    "constant": ("constant", "iota", "partition-id", "replica-id"),
    "kernel": ("fusion",),
    "contraction": ("dot", "convolution", "ragged-dot", "scaled-dot", "triangular-solve"),
    "reduction": ("reduce", "reduce-window", "select-and-scatter", "scan", "sort", "topk"),
    "data movement": (
        "bitcast",
        "broadcast",
        "concatenate",
        "copy",
        "copy-done",
        "copy-start",
        "dynamic-slice",
        "dynamic-update-slice",
        "gather",
        "pad",
        "reshape",
        "reverse",
        "scatter",
        "slice",
        "transpose",
    ),
    "control flow": ("call", "conditional", "while", "async-start", "async-update", "async-done"),
    "communication": (
        "all-gather",
        "all-reduce",
        "all-to-all",
        "collective-broadcast",
        "collective-permute",
        "outfeed",
        "ragged-all-to-all",
        "recv",
        "reduce-scatter",
        "send",
    ),
    "custom call": ("custom-call",),
    "structure": ("tuple", "get-tuple-element", "opt-barrier", "after-all", "add-dependency"),
}

_KINDS: Final[Mapping[Opcode, str]] = {
    Opcode(name): kind for kind, names in _OPCODES.items() for name in names
}


def _kind(x: Instruction) -> str:
    """Return the kind of an operation; `all-reduce-start` is of the kind of `all-reduce`."""
    kind = _KINDS.get(x.opcode)
    if kind is not None:
        return kind
    stem = x.opcode.value.removesuffix("-start").removesuffix("-done")
    is_pair = stem != x.opcode.value
    return _KINDS[Opcode(stem)] if is_pair else "elementwise"
