"""Branches and loops, step by step: graphs inside of nodes are run as graphs of their own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lowtide.frontend.graphs.graph import OpGraph
from lowtide.ir.errors import LowtideError
from lowtide.ir.literal import DTYPES, Array
from lowtide.onnx.host.registry import NodeCall, host
from lowtide.onnx.values import Value


@host("If")
def if_(call: NodeCall) -> Sequence[Value]:
    """Give the outputs of one of two graphs."""
    name = "then_branch" if bool(np.asarray(call.input(0)).reshape(())) else "else_branch"
    return call.run_graph(name, [])


@host("Loop")
def loop(call: NodeCall) -> Sequence[Value]:
    """Give the carried values after the last step, and what the steps gave, stacked."""
    most, going = call.input(0), call.input(1)
    limit = None if most is None else int(np.asarray(most).reshape(()))
    carried = list(call.inputs[2:])
    stacks: list[list[Value]] = [[] for _ in call.graph("body").outputs[1 + len(carried) :]]
    condition = np.array(True) if going is None else np.asarray(going).reshape(())
    step = 0
    while condition and (limit is None or step < limit):
        results = call.run_graph("body", [np.array(step, np.int64), condition, *carried])
        condition = np.asarray(results[0]).reshape(())
        carried = results[1 : 1 + len(carried)]
        for stack, value in zip(stacks, results[1 + len(carried) :], strict=True):
            stack.append(value)
        step += 1
    if step == 0 and stacks:
        first = [np.array(0, np.int64), np.array(True), *carried]
        return [*carried, *_empty_stacks(call, first, len(stacks))]
    return [*carried, *map(np.stack, stacks)]


def _empty_stacks(call: NodeCall, first: Sequence[Value], count: int) -> list[Array]:
    """Stacks of no steps: of the sizes that a first step has, by its inputs, if it can be run.

    Where it cannot, as it reads the first of no rows, what the file says of the body's outputs
    holds, with no elements along dimensions that it leaves open.
    """
    try:
        parts = call.run_graph("body", first)[-count:]
    except LowtideError as error:
        declared = call.graph("body").declared[-count:]
        shapes = [x for x in declared if x is not None]
        if len(shapes) < count:
            raise call.error(
                f"it takes no step, so the sizes of what it stacks are those that its body "
                f"declares, which has no types for its last {count} outputs; a step to see them "
                f"cannot be run: {error}"
            ) from error
        return [np.zeros((0, *x.dimensions), DTYPES[x.element_type]) for x in shapes]
    return [np.zeros((0, *x.shape), x.dtype) for x in map(np.asarray, parts)]


@host("Scan")
def scan(call: NodeCall) -> Sequence[Value]:
    """Give the states after the last step, and what the steps gave, stacked."""
    body: OpGraph = call.graph("body")
    count = call.attribute("num_scan_inputs")
    inputs = list(call.inputs)
    if 0 < call.node.version < 9:
        return _scan_batches(call, inputs[1:], count)
    return _scan(call, body, inputs, count)


def _scan_batches(call: NodeCall, inputs: list[Value], count: int) -> Sequence[Value]:
    """Scan each entry of a batch, as opset 8 has it; the first input, of lengths, is left out."""
    body = call.graph("body")
    batch = inputs[0].shape[0]
    runs = [_scan(call, body, [x[i] for x in inputs], count) for i in range(batch)]
    return [np.stack(values) for values in zip(*runs, strict=True)]


def _scan(call: NodeCall, body: OpGraph, inputs: list[Value], count: int) -> Sequence[Value]:
    state_count = len(inputs) - count
    states, sources = inputs[:state_count], inputs[state_count:]
    stack_count = len(body.outputs) - state_count
    axes = call.attribute("scan_input_axes", [0] * count)
    reversed_in = call.attribute("scan_input_directions", call.attribute("directions", [0] * count))
    sources = [np.moveaxis(x, axis, 0) for x, axis in zip(sources, axes, strict=True)]
    sources = [x[::-1] if back else x for x, back in zip(sources, reversed_in, strict=True)]
    stacks: list[list[Value]] = [[] for _ in range(stack_count)]
    for parts in zip(*sources, strict=True):
        values = [np.ascontiguousarray(x) for x in parts]
        results = call.run_graph("body", [*states, *values])
        states = results[:state_count]
        for stack, value in zip(stacks, results[state_count:], strict=True):
            stack.append(value)
    if stack_count and not sources[0].shape[0]:
        rows = [np.zeros(x.shape[1:], x.dtype) for x in sources]
        joined = _empty_stacks(call, [*states, *rows], stack_count)
    else:
        joined = [np.stack(x) for x in stacks]
    out_axes = call.attribute("scan_output_axes", [0] * stack_count)
    reversed_out = call.attribute("scan_output_directions", [0] * stack_count)
    found = []
    for entries, axis, back in zip(joined, out_axes, reversed_out, strict=True):
        found.append(np.moveaxis(entries[::-1] if back else entries, 0, axis))
    return [*states, *found]
