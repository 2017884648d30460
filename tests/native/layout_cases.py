"""Scheduled modules of one operation whose operands and results have any layout, fused or alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SUM: Final = "sum { sa = T[] parameter(0)\n sb = T[] parameter(1)\n ROOT so = T[] add(sa, sb) }\n"
GE: Final = (
    "ge { ga = T[] parameter(0)\n gb = T[] parameter(1)\n"
    " ROOT go = pred[] compare(ga, gb), direction=GE }\n"
)
LESS: Final = (
    "less { la = T[] parameter(0)\n lb = T[] parameter(1)\n"
    " ROOT lo = pred[] compare(la, lb), direction=LT }\n"
)
LESS_OF_TWO: Final = (
    "less2 { l0 = T[] parameter(0)\n l1 = T[] parameter(1)\n l2 = T[] parameter(2)\n"
    " l3 = T[] parameter(3)\n ROOT l4 = pred[] compare(l0, l1), direction=LT }\n"
)
SUMS: Final = (
    "sums { v0 = T[] parameter(0)\n v1 = T[] parameter(1)\n v2 = T[] parameter(2)\n"
    " v3 = T[] parameter(3)\n v4 = T[] add(v0, v2)\n v5 = T[] maximum(v1, v3)\n"
    " ROOT v6 = (T[], T[]) tuple(v4, v5) }\n"
)
NUMBERS: Final = ("f32", "s32", "bf16", "f64", "c64", "s8")
ORDERED: Final = ("f32", "s32", "bf16", "f64", "s8")
FLOATS: Final = ("f32", "f64")


@dataclass(frozen=True, slots=True)
class Case:
    """An operation: the shapes of its operands and results, and its text.

    A shape is written `T[2,3]`, where T stands for the element type, one of `types`. In the text a
    number stands for the operand of that number. `callee` has the computations that are called.
    """

    operands: str
    results: str
    text: str
    types: tuple[str, ...] = NUMBERS
    callee: str = ""


CASES: Final[dict[str, Case]] = {
    "dot": Case(
        "T[6,7] T[7,5]", "T[6,5]", "dot(0, 1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    ),
    "wide dot": Case(
        "T[33,40] T[70,40]",
        "T[33,70]",
        "dot(0, 1), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
    ),
    "dot of long sums": Case(
        "T[4,900] T[900,3]",
        "T[4,3]",
        "dot(0, 1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "dot with one row": Case(
        "T[3,1,40] T[3,40,19]",
        "T[3,1,19]",
        "dot(0, 1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}",
    ),
    "dot with one column": Case(
        "T[3,2,40] T[3,40]",
        "T[3,2]",
        "dot(0, 1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
        "rhs_contracting_dims={1}",
    ),
    "batched dot": Case(
        "T[2,3,6,8] T[3,2,8,17]",
        "T[2,3,6,17]",
        "dot(0, 1), lhs_batch_dims={0,1}, rhs_batch_dims={1,0}, lhs_contracting_dims={3}, "
        "rhs_contracting_dims={2}",
    ),
    "dot of three": Case(
        "T[4,5,6] T[6,3,7]",
        "T[4,5,3,7]",
        "dot(0, 1), lhs_contracting_dims={2}, rhs_contracting_dims={0}",
    ),
    "convolution": Case(
        "T[2,7,7,3] T[3,3,3,8]",
        "T[2,5,5,8]",
        "convolution(0, 1), window={size=3x3}, dim_labels=b01f_01io->b01f",
    ),
    "dilated convolution": Case(
        "T[2,4,5,3] T[3,2,4,3]",
        "T[4,2,8,4]",
        "convolution(0, 1), window={size=3x2 pad=1_2x1_0 stride=1x2 lhs_dilate=2x2 "
        "rhs_dilate=1x2 rhs_reversal=1x0}, dim_labels=b01f_01oi->fb01",
    ),
    "grouped convolution": Case(
        "T[1,6,8] T[3,2,16]",
        "T[1,6,16]",
        "convolution(0, 1), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f, "
        "feature_group_count=4",
    ),
    "reduce": Case(
        "T[5,6,9] T[]", "T[5,9]", "reduce(0, 1), dimensions={1}, to_apply=sum", callee=SUM
    ),
    "reduce of rows": Case(
        "T[5,3,40] T[]", "T[5,3]", "reduce(0, 1), dimensions={2}, to_apply=sum", callee=SUM
    ),
    "reduce of two": Case(
        "T[5,3,40] T[5,3,40] T[] T[]",
        "T[3,40] T[3,40]",
        "reduce(0, 1, 2, 3), dimensions={0}, to_apply=sums",
        ORDERED,
        SUMS,
    ),
    "reduce-window": Case(
        "T[5,9,8] T[]",
        "T[5,4,8]",
        "reduce-window(0, 1), window={size=1x3x2 stride=1x2x1 pad=0_0x0_0x1_0}, to_apply=sum",
        callee=SUM,
    ),
    "select-and-scatter": Case(
        "T[3,6,8] T[3,3,4] T[]",
        "T[3,6,8]",
        "select-and-scatter(0, 1, 2), window={size=1x2x2 stride=1x2x2}, select=ge, scatter=sum",
        ORDERED,
        GE + SUM,
    ),
    "concatenate": Case("T[3,4,5] T[3,2,5]", "T[3,6,5]", "concatenate(0, 1), dimensions={1}"),
    "sort": Case("T[5,3,9]", "T[5,3,9]", "sort(0), dimensions={0}, to_apply=less", ORDERED, LESS),
    "sort of rows": Case(
        "T[5,3,9]", "T[5,3,9]", "sort(0), dimensions={2}, to_apply=less", ORDERED, LESS
    ),
    "sort of two": Case(
        "T[5,19,3] T[5,19,3]",
        "T[5,19,3] T[5,19,3]",
        "sort(0, 1), dimensions={1}, is_stable=true, to_apply=less2",
        ORDERED,
        LESS_OF_TWO,
    ),
    "fft": Case("c64[3,4,8]", "c64[3,4,8]", "fft(0), fft_type=FFT, fft_length={8}", ("c64",)),
    "fft of planes": Case(
        "c64[3,4,6]", "c64[3,4,6]", "fft(0), fft_type=IFFT, fft_length={4,6}", ("c64",)
    ),
    "fft of real": Case(
        "f32[3,4,8]", "c64[3,4,5]", "fft(0), fft_type=RFFT, fft_length={8}", ("f32",)
    ),
    "fft to real": Case(
        "c64[3,4,5]", "f32[3,4,8]", "fft(0), fft_type=IRFFT, fft_length={8}", ("f32",)
    ),
    "transpose": Case("T[3,4,5]", "T[5,3,4]", "transpose(0), dimensions={2,0,1}"),
    "reshape": Case("T[3,4,5]", "T[12,5]", "reshape(0)"),
    "copy": Case("T[3,4,50]", "T[3,4,50]", "copy(0)"),
    "pad": Case("T[3,4] T[]", "T[6,7]", "pad(0, 1), padding=1_0_1x2_1"),
    "slice": Case("T[6,7,3]", "T[3,4,3]", "slice(0), slice={[1:6:2], [2:6], [0:3]}"),
    "reverse": Case("T[6,7,3]", "T[6,7,3]", "reverse(0), dimensions={0,2}"),
    "broadcast": Case("T[6,3]", "T[3,4,6]", "broadcast(0), dimensions={2,0}"),
    "iota": Case("T[]", "T[3,4,6]", "iota(), iota_dimension=1"),
    "dynamic-slice": Case(
        "T[6,7,3] s32[] s32[] s32[]",
        "T[2,4,3]",
        "dynamic-slice(0, 1, 2, 3), dynamic_slice_sizes={2,4,3}",
    ),
    "dynamic-update-slice": Case(
        "T[6,7,3] T[2,4,3] s32[] s32[] s32[]", "T[6,7,3]", "dynamic-update-slice(0, 1, 2, 3, 4)"
    ),
    "gather": Case(
        "T[6,7,3] s32[4,5,2]",
        "T[4,2,5,3]",
        "gather(0, 1), offset_dims={1,3}, collapsed_slice_dims={1}, start_index_map={1,0}, "
        "index_vector_dim=2, slice_sizes={2,1,3}",
    ),
    "scatter": Case(
        "T[6,7,3] s32[4,5,2] T[4,2,5,3]",
        "T[6,7,3]",
        "scatter(0, 1, 2), update_window_dims={1,3}, inserted_window_dims={1}, "
        "scatter_dims_to_operand_dims={1,0}, index_vector_dim=2, to_apply=sum",
        callee=SUM,
    ),
    "triangular-solve": Case(
        "T[2,5,5] T[2,5,3]",
        "T[2,5,3]",
        "triangular-solve(0, 1), left_side=true, lower=true, unit_diagonal=true, "
        "transpose_a=NO_TRANSPOSE",
        FLOATS,
    ),
    "topk": Case("T[4,30]", "T[4,5] s32[4,5]", "topk(0), k=5, largest=true", FLOATS),
    "rng-bit-generator": Case(
        "u64[2]", "u64[2] u32[5,6]", "rng-bit-generator(0), algorithm=rng_three_fry", ("u32",)
    ),
    "bitcast-convert": Case("f32[5,6]", "s32[5,6]", "bitcast-convert(0)", ("f32",)),
    "bitcast": Case("T[4,6]", "T[3,2,4]", "bitcast(0)"),
    "select": Case("pred[4,6] T[4,6] T[4,6]", "T[4,6]", "select(0, 1, 2)"),
    "scan of sums": Case(
        "T[5,40,3] T[]",
        "T[5,40,3]",
        "reduce-window(0, 1), window={size=1x40x1 pad=0_0x39_0x0_0}, to_apply=sum",
        callee=SUM,
    ),
}
"""By what is tried: operations that read or write arrays in an order of their own."""


def shape_text(shape: str, draw: random.Random) -> str:
    """Return a shape with a layout that is drawn."""
    dimensions = shape[shape.index("[") + 1 : -1]
    if not dimensions:
        return shape
    order = list(range(dimensions.count(",") + 1))
    draw.shuffle(order)
    return f"{shape}{{{','.join(map(str, order))}}}"


def module_text(case: Case, seed: int, *, is_fused: bool) -> str:
    """Return a scheduled module; with `is_fused` element-wise operations stand around it."""
    draw = random.Random(seed)
    type_ = draw.choice(case.types)
    plain = [x.replace("T", type_) for x in case.operands.split()]
    operands = [shape_text(x, draw) for x in plain]
    results = [shape_text(x.replace("T", type_), draw) for x in case.results.split()]
    callees = case.callee.replace("T[", f"{type_}[")
    body, names = _operands(operands, draw, is_fused)
    whole = results[0] if len(results) == 1 else f"({', '.join(results)})"
    head, _, rest = case.text.partition("(")
    given, _, attributes = rest.partition(")")
    read = ", ".join([names[int(x)] for x in given.split(",") if x.strip()])
    body.append(f"op = {whole} {head}({read}){attributes}")
    if not is_fused:
        body[-1] = "ROOT " + body[-1]
        return _module(callees, body)
    whole = _behind(body, results, draw)
    entry = [f"e{x}" for x in body if " parameter(" in x]
    callees += "fused {\n " + "\n ".join(body) + "\n}\n"
    given = ", ".join([x.split()[0] for x in entry])
    entry.append(f"ROOT f = {whole} fusion({given}), kind=kLoop, calls=fused")
    return _module(callees, entry)


def _operands(
    operands: Sequence[str], draw: random.Random, is_fused: bool
) -> tuple[list[str], list[str]]:
    """The lines that make operands, and their names."""
    body, names = [], []
    for number, shape in enumerate(operands):
        body.append(f"p{number} = {shape} parameter({number})")
        names.append(f"p{number}")
        if is_fused and "[]" not in shape and draw.random() < 0.5:
            before = shape_text(shape.partition("{")[0], draw)
            body.append(
                f"a{number} = {before} {'not' if shape[0] in 'pu' else 'negate'}(p{number})"
            )
            names[-1] = f"a{number}"
    return body, names


def _behind(body: list[str], results: list[str], draw: random.Random) -> str:
    """Add what stands behind the operation, the root last; return its shape."""
    found = []
    for number, shape in enumerate(results):
        name = "op"
        if len(results) > 1:
            name = f"g{number}"
            body.append(f"{name} = {shape} get-tuple-element(op), index={number}")
        if draw.random() < 0.6:
            shape = shape_text(shape.partition("{")[0], draw)
            body.append(f"n{number} = {shape} {'not' if shape[0] == 'u' else 'negate'}({name})")
            name = f"n{number}"
        found.append((shape, name))
    if len(found) == 1:
        body[-1] = "ROOT " + body[-1]
        return found[0][0]
    whole = f"({', '.join([x for x, _ in found])})"
    body.append(f"ROOT t = {whole} tuple({', '.join([x for _, x in found])})")
    return whole


def _module(callees: str, body: Sequence[str]) -> str:
    lines = "\n ".join(body)
    return f"HloModule m, is_scheduled=true\n{callees}ENTRY e {{\n {lines}\n}}\n"
