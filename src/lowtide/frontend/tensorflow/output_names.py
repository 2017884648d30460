"""The outputs of ops that have several of them."""

from __future__ import annotations

from typing import Final

_BATCH_NORM: Final = ("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2")

OUTPUT_NAMES: Final = {
    "BroadcastGradientArgs": ("r0", "r1"),
    "FusedBatchNorm": _BATCH_NORM,
    "FusedBatchNormGrad": ("x_backprop", "scale_backprop", "offset_backprop", "r4", "r5"),
    "FusedBatchNormGradV2": ("x_backprop", "scale_backprop", "offset_backprop", "r4", "r5"),
    "FusedBatchNormGradV3": ("x_backprop", "scale_backprop", "offset_backprop", "r4", "r5"),
    "FusedBatchNormV2": _BATCH_NORM,
    "FusedBatchNormV3": (*_BATCH_NORM, "reserve_space_3"),
    "ListDiff": ("out", "idx"),
    "Merge": ("output", "value_index"),
    "RefMerge": ("output", "value_index"),
    "RefSwitch": ("output_false", "output_true"),
    "SoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "SparseSoftmaxCrossEntropyWithLogits": ("loss", "backprop"),
    "StatelessRandomGetKeyCounter": ("key", "counter"),
    "Switch": ("output_false", "output_true"),
    "TensorListPopBack": ("output_handle", "tensor"),
    "TopKV2": ("values", "indices"),
    "Unique": ("y", "idx"),
    "UniqueV2": ("y", "idx"),
    "UniqueWithCounts": ("y", "idx", "count"),
}
"""The outputs by name: in functions, inputs name these. An op that is not here has one output, or
a list of them under one name."""
