"""Recurrent layers of one step or of sequences: SVDF, RNN, LSTM, with state between calls.

A sequence is a loop, of which each step gives its part of the result. Products with 8-bit weights
are those of hybrid kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from lowtide.builder import Builder, Op
from lowtide.frontend.graphs.context import OpKernelContext
from lowtide.frontend.graphs.registry import op
from lowtide.frontend.graphs.shared.broadcasting import along
from lowtide.frontend.graphs.shared.loops import part_at, repeat_steps, with_part
from lowtide.frontend.graphs.shared.reductions import reduce
from lowtide.frontend.tflite.basic_lstm import basic_lstm
from lowtide.frontend.tflite.lstm import LstmCell
from lowtide.frontend.tflite.lstm_scales import quantized_cell
from lowtide.frontend.tflite.node import DOMAIN, LiteNode
from lowtide.frontend.tflite.quantized_recurrent import moved_on, quantized_svdf
from lowtide.frontend.tflite.weights import LayerWeights, active, added
from lowtide.records import dataclass

Cell: TypeAlias = Callable[[Builder, Op, list[Op]], tuple[Op, list[Op]]]
"""Gives the output and the state after one step, from its input [n, k] and the state before."""


@op("SVDF", domain=DOMAIN, inputs=5)
def svdf(context: OpKernelContext) -> None:
    """Give features [n, units] filtered over time, of products that the state keeps.

    Inputs are x, the weights of features and of time, bias and state. Source: R. Alvarez and
    H. Park, End-to-End Streaming Keyword Spotting, 2018.
    """
    node, b = LiteNode(context), context.builder
    if node.is_quantized:
        quantized_svdf(node)
        return
    x, state = context.input(0), context.input(4)
    weights = LayerWeights.of(node, [1, 2], with_zero=bool(node.code(2)))
    features = weights.product(b, x, 1)
    time = weights.plain(b, 2)
    if features is None or time is None:
        raise node.error("it has no weights")
    rank, (filters, memory), batch = max(node.number(0), 1), time.dimensions, x.dimensions[0]
    held = moved_on(b, state, features, memory)
    total = reduce(b, "sum", held * b.broadcast(time, held.dimensions, [1, 2]), [2])
    found = reduce(b, "sum", b.reshape(total, [batch, filters // rank, rank]), [2])
    bias = context.optional(3)
    found = found if bias is None else found + along(b, bias, 1, found.dimensions)
    node.give(found, node.activation(1))
    node.give(b.reshape(held, state.dimensions))


# -- RNN -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, slots=True)
class _RnnCell:
    """A cell of input weights, recurrent ones and bias.

    `others` is the number of the weights of an auxiliary input, which stands behind the input.
    """

    weights: LayerWeights
    first: int
    others: int | None
    activation: str

    def __call__(self, b: Builder, x: Op, state: list[Op]) -> tuple[Op, list[Op]]:
        """One step."""
        parts = self.weights.products(b, x, [self.first, self.others], 0)
        sums = added([*parts, self.weights.product(b, state[0], self.first + 1)])
        bias = self.weights.along(b, self.first + 2, sums)
        found = active(b, added([sums, bias]), self.activation)
        return found, [found]


def _rnn(
    node: LiteNode, first: int, activation: int, with_zero: int, others: int | None = None
) -> _RnnCell:
    node.require_floats()
    numbers = [first, first + 1, first + 2, *([] if others is None else [others])]
    weights = LayerWeights.of(node, numbers, with_zero=bool(node.code(with_zero)))
    return _RnnCell(weights, first, others, node.activation(activation))


@op("RNN", domain=DOMAIN, inputs=5)
def rnn(context: OpKernelContext) -> None:
    """Give one step of a recurrent layer, and its state."""
    node = LiteNode(context)
    found, state = _rnn(node, 1, 0, 1)(node.b, context.input(0), [context.input(4)])
    node.give(found)
    node.give(state[0])


@op("UNIDIRECTIONAL_SEQUENCE_RNN", domain=DOMAIN, inputs=5)
def sequence_rnn(context: OpKernelContext) -> None:
    """Give all steps of a recurrent layer, and its state."""
    node = LiteNode(context)
    cell, is_time_major = _rnn(node, 1, 1, 2), bool(node.code(0))
    found, state = _over_time(node, cell, context.input(0), [4], is_time_major=is_time_major)
    node.give(found)
    node.give(state[0])


@op("BIDIRECTIONAL_SEQUENCE_RNN", domain=DOMAIN, inputs=(9, 12))
def bidirectional_rnn(context: OpKernelContext) -> None:
    """Give all steps of two recurrent layers, one of which goes backwards, and their states."""
    node = LiteNode(context)
    cells = [_rnn(node, first, 1, 3, others) for first, others in ((1, 10), (5, 11))]
    inputs, states = _inputs_both_ways(node, 9, 10), [[4], [8]]
    major, merged = bool(node.code(0)), bool(node.code(2))
    _both_ways(node, cells, inputs, states, is_time_major=major, merged=merged)


# -- LSTM ----------------------------------------------------------------------------------------


def _lstm_cell(node: LiteNode, rows: int) -> Cell:
    """The cell of an LSTM of one way; `rows` are those that TFLite's kernel takes at once."""
    if node.is_quantized:
        return quantized_cell(node, rows)
    return LstmCell.of(node, 1, 20, with_zero=bool(node.code(4)))


@op("LSTM", domain=DOMAIN, inputs=(5, 24))
def lstm(context: OpKernelContext) -> None:
    """Give one step of an LSTM, and its state."""
    node = LiteNode(context)
    if node.code(3):
        basic_lstm(node)
        return
    x = context.input(0)
    cell = _lstm_cell(node, x.dimensions[0])
    found, state = cell(node.b, x, [context.input(i) for i in (18, 19)])
    for value in (found, *state):
        node.give(value)


@op("UNIDIRECTIONAL_SEQUENCE_LSTM", domain=DOMAIN, inputs=(20, 24))
def sequence_lstm(context: OpKernelContext) -> None:
    """Give all steps of an LSTM, and its state."""
    node = LiteNode(context)
    given, is_time_major = context.input(0), bool(node.code(3))
    cell = _lstm_cell(node, given.dimensions[1] if is_time_major else 1)
    found, state = _over_time(node, cell, given, [18, 19], is_time_major=is_time_major)
    for value in (found, *state):
        node.give(value)


@op("BIDIRECTIONAL_SEQUENCE_LSTM", domain=DOMAIN, inputs=(39, 48))
def bidirectional_lstm(context: OpKernelContext) -> None:
    """Give all steps of two LSTMs, one of which goes backwards, and their states."""
    node = LiteNode(context)
    with_zero = bool(node.code(5))
    firsts = (1, 40), (18, 44)
    cells = [LstmCell.of(node, x, None, others, with_zero=with_zero) for x, others in firsts]
    inputs, states = _inputs_both_ways(node, 39, 41), [[35, 36], [37, 38]]
    major, merged = bool(node.code(4, 1)), bool(node.code(3))
    _both_ways(node, cells, inputs, states, is_time_major=major, merged=merged)


# -- sequences -----------------------------------------------------------------------------------

_SWAPPED: Final = (1, 0, 2)


def _inputs_both_ways(node: LiteNode, auxiliary: int, weights: int) -> list[Op]:
    """The inputs of two layers, of which the second goes backwards.

    An auxiliary one with weights stands behind the input of both; without, it is the second's.
    """
    x, other = node.context.input(0), node.context.optional(auxiliary)
    if other is None:
        return [x, x]
    if node.context.has_input(weights):
        return [node.b.concatenate([x, other], 2)] * 2
    return [x, other]


def _over_time(
    node: LiteNode,
    cell: Cell,
    x: Op,
    states: Sequence[int],
    *,
    is_time_major: bool,
    backwards: bool = False,
) -> tuple[Op, list[Op]]:
    """The outputs of all steps, in the layout of x, and the state after the last one."""
    b = node.b
    x = x if is_time_major else b.transpose(x, _SWAPPED)
    held = [node.context.input(i) for i in states]
    count, batch = x.dimensions[:2]
    width = held[0].dimensions[-1]
    found = b.broadcast(b.constant(0, held[0].element_type), [count, batch, width], [])

    def step(child: Builder, number: Op, values: list[Op]) -> list[Op]:
        place = child.subtract(count - 1, number) if backwards else number
        output, after = cell(child, part_at(child, values[0], place), values[2:])
        return [values[0], with_part(child, values[1], output, place), *after]

    _, found, *after = repeat_steps(b, count, [x, found, *held], step)
    return found if is_time_major else b.transpose(found, _SWAPPED), after


def _both_ways(
    node: LiteNode,
    cells: Sequence[Cell],
    inputs: Sequence[Op],
    states: Sequence[Sequence[int]],
    *,
    is_time_major: bool,
    merged: bool,
) -> None:
    """Set the outputs: both ways side by side if `merged`, then what their states are."""
    outputs, left = [], []
    for number, (cell, x, held) in enumerate(zip(cells, inputs, states, strict=True)):
        found, after = _over_time(
            node, cell, x, held, is_time_major=is_time_major, backwards=number == 1
        )
        outputs.append(found)
        left += after
    shown = [node.b.concatenate(outputs, 2)] if merged else outputs
    for value in (*shown, *left):
        node.give(value)
