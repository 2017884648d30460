"""Operations on arrays without elements, and such that make elements out of none."""

from __future__ import annotations

from typing import Final

from tests.native.layout_cases import FLOATS, GE, LESS, LESS_OF_TWO, ORDERED, SUM, Case

_DOT: Final = "dot(0, 1), lhs_contracting_dims={1}, rhs_contracting_dims={0}"
_BATCHED: Final = (
    "dot(0, 1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
    "rhs_contracting_dims={1}"
)
_CONVOLUTION: Final = "convolution(0, 1), window={size=3}, dim_labels=b0f_0io->b0f"
_SORT: Final = "sort(0), dimensions={1}, to_apply=less"
_SOLVE: Final = (
    "triangular-solve(0, 1), left_side=true, lower=true, unit_diagonal=false, "
    "transpose_a=NO_TRANSPOSE"
)
_SCATTER: Final = (
    "scatter(0, 1, 2), update_window_dims={1}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=sum"
)
_GATHER: Final = (
    "gather(0, 1), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
    "index_vector_dim=1, slice_sizes="
)
_SELECT: Final = "select-and-scatter(0, 1, 2), window={size=1x2 stride=1x2}, select=ge, scatter=sum"
_FFT: Final = "fft(0), fft_type=FFT, fft_length="

EMPTY: Final[dict[str, Case]] = {
    "dot of no products": Case("T[6,0] T[0,5]", "T[6,5]", _DOT),
    "dot without rows": Case("T[0,4] T[4,5]", "T[0,5]", _DOT),
    "dot without columns": Case("T[6,4] T[4,0]", "T[6,0]", _DOT),
    "dot with a vector of none": Case("T[6,0] T[0]", "T[6]", _DOT),
    "batched dot of none": Case("T[0,3,4] T[0,4,5]", "T[0,3,5]", _BATCHED),
    "batched dot of no products": Case("T[2,3,0] T[2,0,5]", "T[2,3,5]", _BATCHED),
    "convolution without features": Case("T[2,7,0] T[3,0,8]", "T[2,5,8]", _CONVOLUTION),
    "convolution of no batch": Case("T[0,7,3] T[3,3,8]", "T[0,5,8]", _CONVOLUTION),
    "convolution to no features": Case("T[2,7,3] T[3,3,0]", "T[2,5,0]", _CONVOLUTION),
    "convolution without places": Case("T[2,0,3] T[3,3,8]", "T[2,0,8]", _CONVOLUTION),
    "convolution of padding": Case(
        "T[2,0,3] T[3,3,8]",
        "T[2,2,8]",
        "convolution(0, 1), window={size=3 pad=2_2}, dim_labels=b0f_0io->b0f",
    ),
    "convolution of empty groups": Case(
        "T[2,7,0] T[3,0,8]", "T[2,5,8]", _CONVOLUTION + ", feature_group_count=2"
    ),
    "fft of no lines": Case("c64[0,8]", "c64[0,8]", _FFT + "{8}", ("c64",)),
    "fft of no length": Case("c64[3,0]", "c64[3,0]", _FFT + "{0}", ("c64",)),
    "fft of no rows": Case("c64[2,0,4]", "c64[2,0,4]", _FFT + "{0,4}", ("c64",)),
    "sort of none": Case("T[3,0]", "T[3,0]", _SORT, ORDERED, LESS),
    "sort of no rows": Case("T[0,4]", "T[0,4]", _SORT, ORDERED, LESS),
    "sort of two empty arrays": Case(
        "T[3,0] T[3,0]",
        "T[3,0] T[3,0]",
        "sort(0, 1), dimensions={1}, to_apply=less2",
        ORDERED,
        LESS_OF_TWO,
    ),
    "cholesky of size 0": Case("T[2,0,0]", "T[2,0,0]", "cholesky(0), lower=true", FLOATS),
    "cholesky of no matrices": Case("T[0,3,3]", "T[0,3,3]", "cholesky(0), lower=true", FLOATS),
    "triangular-solve of size 0": Case("T[2,0,0] T[2,0,3]", "T[2,0,3]", _SOLVE, FLOATS),
    "triangular-solve of no matrices": Case("T[0,2,2] T[0,2,3]", "T[0,2,3]", _SOLVE, FLOATS),
    "triangular-solve without columns": Case("T[1,2,2] T[1,2,0]", "T[1,2,0]", _SOLVE, FLOATS),
    "reduce-window of padding": Case(
        "T[3,0] T[]",
        "T[3,2]",
        "reduce-window(0, 1), window={size=1x3 pad=0_0x2_2}, to_apply=sum",
        callee=SUM,
    ),
    "reduce-window without places": Case(
        "T[3,2] T[]", "T[3,0]", "reduce-window(0, 1), window={size=1x3}, to_apply=sum", callee=SUM
    ),
    "reduce of no elements": Case(
        "T[0,40] T[]", "T[40]", "reduce(0, 1), dimensions={0}, to_apply=sum", callee=SUM
    ),
    "reduce of empty rows": Case(
        "T[3,0] T[]", "T[3]", "reduce(0, 1), dimensions={1}, to_apply=sum", callee=SUM
    ),
    "reduce of no rows": Case(
        "T[0,40] T[]", "T[0]", "reduce(0, 1), dimensions={1}, to_apply=sum", callee=SUM
    ),
    "scatter of no updates": Case("T[6,7] s32[0,1] T[0,7]", "T[6,7]", _SCATTER, callee=SUM),
    "scatter of empty updates": Case("T[6,0] s32[2,1] T[2,0]", "T[6,0]", _SCATTER, callee=SUM),
    "scatter into nothing": Case("T[0,7] s32[2,1] T[2,7]", "T[0,7]", _SCATTER, callee=SUM),
    "gather of no places": Case("T[6,7] s32[0,1]", "T[0,7]", _GATHER + "{1,7}"),
    "gather of nothing": Case("T[6,0] s32[3,1]", "T[3,0]", _GATHER + "{1,0}"),
    "select-and-scatter of no rows": Case(
        "T[0,6] T[0,3] T[]", "T[0,6]", _SELECT, ORDERED, GE + SUM
    ),
    "select-and-scatter without places": Case(
        "T[3,1] T[3,0] T[]", "T[3,1]", _SELECT, ORDERED, GE + SUM
    ),
    "dynamic-slice of nothing": Case(
        "T[6,7] s32[] s32[]", "T[0,4]", "dynamic-slice(0, 1, 2), dynamic_slice_sizes={0,4}"
    ),
    "dynamic-update-slice by nothing": Case(
        "T[6,7] T[0,4] s32[] s32[]", "T[6,7]", "dynamic-update-slice(0, 1, 2, 3)"
    ),
    "pad of nothing": Case("T[0,3] T[]", "T[4,5]", "pad(0, 1), padding=2_2x1_1"),
    "concatenate with nothing": Case(
        "T[0,3] T[2,3]", "T[2,3]", "concatenate(0, 1), dimensions={0}"
    ),
    "reshape of nothing": Case("T[0,3]", "T[5,0]", "reshape(0)"),
    "topk of no rows": Case("T[0,30]", "T[0,5] s32[0,5]", "topk(0), k=5, largest=true", FLOATS),
    "topk of none": Case("T[4,30]", "T[4,0] s32[4,0]", "topk(0), k=0, largest=true", FLOATS),
    "no random bits": Case(
        "u64[2]", "u64[2] u32[0,6]", "rng-bit-generator(0), algorithm=rng_three_fry", ("u32",)
    ),
}
"""By what is tried: operations with a size of 0."""
