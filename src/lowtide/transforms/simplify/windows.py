"""Reductions in windows that are plain operations or reductions."""

from __future__ import annotations

from typing import Final

from lowtide.builder.values import SubComputation
from lowtide.ir import Instruction, Opcode
from lowtide.ir.attributes import ReduceWindow, Window, WindowDimension
from lowtide.ops.reducers import reducer_opcode
from lowtide.passes.matching import has_one_user, is_uniform, scalar_value
from lowtide.passes.rewriting import Rewriter
from lowtide.transforms.simplify.pad import padding_of
from lowtide.transforms.simplify.reduction import is_identity
from lowtide.transforms.simplify.support import Made, arrays, spread

_TRIVIAL: Final = WindowDimension(1)

_IDEMPOTENT: Final = frozenset({Opcode.AND, Opcode.MAXIMUM, Opcode.MINIMUM, Opcode.OR})
"""Reducers for which a value that is given twice counts as if given once."""

# -- reduce-window -----------------------------------------------------------------------------


def _window(x: Instruction) -> tuple[WindowDimension, ...]:
    return x.attributes_as(ReduceWindow).window.dimensions


@arrays(Opcode.REDUCE_WINDOW)
def window_of_one(x: Instruction, at: Rewriter) -> Made:
    """reduce-window(x, v) => op(x, v), where each window is one element"""
    if len(x.operands) != 2 or any(d != _TRIVIAL for d in _window(x)):
        return None
    opcode = reducer_opcode(x.called_computations[0])
    if opcode is None:
        return None
    operand, init = x.operands
    return at.build.emit(opcode, [at(operand), spread(at, at(init), x.shape)])


@arrays(Opcode.REDUCE_WINDOW)
def window_of_repeats(x: Instruction, at: Rewriter) -> Made:
    """reduce-window(x, v) => op(x, v), repeated, where a window meets one of dilated elements"""
    opcode = reducer_opcode(x.called_computations[0])
    window, sizes = _window(x), x.operands[0].shape.dimensions
    if len(x.operands) != 2 or opcode is None or not all(sizes):
        return None
    if not any(d.size > 1 for d in window) or not all(_repeats(d) for d in window):
        return None
    operand, init = at(x.operands[0]), at(x.operands[1])
    once = at.build.emit(opcode, [operand, spread(at, init, x.operands[0].shape)])
    each: list[int] = []
    places = []
    for n, d in zip(sizes, window, strict=True):
        places.append(len(each))
        each += [n, d.size] if d.size > 1 else [n]
    repeated = at.build.broadcast(once, each, places)
    whole = [n * d.size for n, d in zip(sizes, window, strict=True)]
    starts = [d.size - 1 - d.padding_low for d in window]
    limits = [s + n for s, n in zip(starts, x.shape.dimensions, strict=True)]
    found = at.build.reshape(repeated, whole)
    return found if limits == whole and not any(starts) else at.build.slice(found, starts, limits)


def _repeats(d: WindowDimension) -> bool:
    """Whether each window meets one element, and neighbouring windows mostly the same."""
    is_close = d.base_dilation == d.size and d.stride == d.window_dilation == 1
    return is_close and 0 <= d.padding_low < d.size and 0 <= d.padding_high < d.size


@arrays(Opcode.REDUCE_WINDOW)
def window_of_everything(x: Instruction, at: Rewriter) -> Made:
    """reduce-window(x, v) => reshape(reduce(x, v)), where windows are whole dimensions"""
    if len(x.operands) != 2 or reducer_opcode(x.called_computations[0]) is None:
        return None
    operand, init = x.operands
    reduced = []
    for i, (d, n) in enumerate(zip(_window(x), operand.shape.dimensions, strict=True)):
        if d == _TRIVIAL:
            continue
        if d != WindowDimension(n, d.stride) or not n:
            return None
        reduced.append(i)
    if not reduced:
        return None
    reducer = SubComputation(x.called_computations[0])
    early = at.build.reduce(at(operand), at(init), reducer, reduced)
    return at.build.reshape(early, x.shape.dimensions)


@arrays(Opcode.REDUCE_WINDOW)
def window_of_pad(x: Instruction, at: Rewriter) -> Made:
    """reduce-window(pad(x, v), v) => reduce-window(x, v), with the padding in the window"""
    opcode = reducer_opcode(x.called_computations[0])
    if len(x.operands) != 2 or opcode is None:
        return None
    pad, init = x.operands
    if opcode not in _IDEMPOTENT and not is_identity(opcode, init):
        return None  # What pads counts each time that it is read, the initial value once.
    if pad.opcode is not Opcode.PAD or not has_one_user(pad) or not is_uniform(pad):
        return None
    value, other = scalar_value(pad.operands[1]), scalar_value(init)
    known = value is not None and other is not None and value.tobytes() == other.tobytes()
    if pad.operands[1] is not init and not known:
        return None
    window = []
    for d, p in zip(_window(x), padding_of(pad), strict=True):
        if p.low < 0 or p.high < 0 or (p.interior and d.base_dilation != 1):
            return None
        if (p.low or p.high) and d.base_dilation != 1:
            return None
        window.append(
            WindowDimension(
                d.size,
                d.stride,
                d.padding_low + p.low,
                d.padding_high + p.high,
                d.window_dilation,
                d.base_dilation if d.base_dilation != 1 else p.interior + 1,
                d.reversal,
            )
        )
    reducer = SubComputation(x.called_computations[0])
    return at.build.reduce_window(at(pad.operands[0]), at(init), reducer, Window(tuple(window)))
