"""Training steps of chains of layers, as HLO text: what recomputation is for."""

from __future__ import annotations

from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import Module


def training_step(layers: int = 8, rows: int = 64, width: int = 8) -> Module:
    """The gradients of all weights of a chain of tanh layers: each layer is read twice."""
    large, square = f"f32[{rows},{width}]", f"f32[{width},{width}]"
    lines = [f"x = {large} parameter(0)"]
    lines += [f"w{i} = {square} parameter({i + 1})" for i in range(layers)]
    lines += ["one = f32[] constant(1)", f"ones = {large} broadcast(one), dimensions={{}}"]
    before = "x"
    for i in range(layers):
        lines.append(f"z{i} = {large} dot({before}, w{i}), {_dims(1, 0)}")
        lines.append(f"h{i} = {large} tanh(z{i})")
        before = f"h{i}"
    gradient = before
    for i in reversed(range(layers)):
        lines.append(f"sq{i} = {large} multiply(h{i}, h{i})")
        lines.append(f"co{i} = {large} subtract(ones, sq{i})")
        lines.append(f"gr{i} = {large} multiply({gradient}, co{i})")
        below = f"h{i - 1}" if i else "x"
        lines.append(f"dw{i} = {square} dot({below}, gr{i}), {_dims(0, 0)}")
        lines.append(f"db{i} = {large} dot(gr{i}, w{i}), {_dims(1, 1)}")
        gradient = f"db{i}"
    results = ", ".join([f"dw{i}" for i in range(layers)])
    shapes = ", ".join([square] * layers)
    lines.append(f"ROOT grads = ({shapes}) tuple({results})")
    return _module("step", lines)


def looped_step(trips: int = 3, layers: int = 6) -> Module:
    """A loop whose body is a chain and back: the peak is inside."""
    large, square = "f32[64,8]", "f32[8,8]"
    state = f"(s32[], {large}, {square})"
    body = [
        f"state = {state} parameter(0)",
        "k = s32[] get-tuple-element(state), index=0",
        "one = s32[] constant(1)",
        "next = s32[] add(k, one)",
        f"x = {large} get-tuple-element(state), index=1",
        f"w = {square} get-tuple-element(state), index=2",
    ]
    before = "x"
    for i in range(layers):
        body.append(f"z{i} = {large} dot({before}, w), {_dims(1, 0)}")
        body.append(f"h{i} = {large} tanh(z{i})")
        before = f"h{i}"
    for i in reversed(range(layers)):
        body.append(f"gr{i} = {large} multiply({before}, h{i})")
        body.append(f"db{i} = {large} dot(gr{i}, w), {_dims(1, 1)}")
        before = f"db{i}"
    body.append(f"ROOT t = {state} tuple(next, {before}, w)")
    condition = [
        f"state = {state} parameter(0)",
        "k = s32[] get-tuple-element(state), index=0",
        f"most = s32[] constant({trips})",
        "ROOT less = pred[] compare(k, most), direction=LT",
    ]
    entry = [
        f"x = {large} parameter(0)",
        f"w = {square} parameter(1)",
        "zero = s32[] constant(0)",
        f"start = {state} tuple(zero, x, w)",
        f"loop = {state} while(start), condition=condition, body=body",
        f"ROOT y = {large} get-tuple-element(loop), index=1",
    ]
    parts = [_computation("body", body), _computation("condition", condition)]
    parts.append(_computation("ENTRY main", entry))
    return parse_hlo("HloModule looped\n\n" + "\n".join(parts))


def _dims(left: int, right: int) -> str:
    return f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"


def _computation(name: str, lines: list[str]) -> str:
    return "\n".join([f"{name} {{", *[f"  {x}" for x in lines], "}", ""])


def _module(name: str, lines: list[str]) -> Module:
    return parse_hlo(f"HloModule {name}\n\n" + _computation("ENTRY main", lines))
