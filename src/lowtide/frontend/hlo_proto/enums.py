"""The enums of attributes: protobuf numbers and the words that the IR uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lowtide.ir.attributes import DotAlgorithm, Precision

PRECISIONS: Final = {0: Precision.DEFAULT, 1: Precision.HIGH, 2: Precision.HIGHEST}
ALGORITHMS: Final = {
    0: DotAlgorithm.UNSET,
    1: DotAlgorithm.ANY_F8_ANY_F8_F32,
    2: DotAlgorithm.ANY_F8_ANY_F8_F32_FAST_ACCUM,
    3: DotAlgorithm.F16_F16_F16,
    4: DotAlgorithm.F16_F16_F32,
    5: DotAlgorithm.BF16_BF16_BF16,
    6: DotAlgorithm.BF16_BF16_F32,
    7: DotAlgorithm.BF16_BF16_F32_X3,
    8: DotAlgorithm.BF16_BF16_F32_X6,
    9: DotAlgorithm.TF32_TF32_F32,
    10: DotAlgorithm.TF32_TF32_F32_X3,
    11: DotAlgorithm.F32_F32_F32,
    12: DotAlgorithm.F64_F64_F64,
    13: DotAlgorithm.BF16_BF16_F32_X9,
}
NUMBERED: Final[Mapping[str, Mapping[int, Any]]] = {
    "conv_kind": {0: "unset", 1: "fprop", 2: "dgrad", 3: "wgrad"},
    "custom_call_api_version": {
        0: "API_VERSION_ORIGINAL",
        1: "API_VERSION_ORIGINAL",
        2: "API_VERSION_STATUS_RETURNING",
        3: "API_VERSION_STATUS_RETURNING_UNIFIED",
        4: "API_VERSION_TYPED_FFI",
    },
    "custom_call_schedule": {0: "SCHEDULE_NONE", 1: "SCHEDULE_LATEST", 2: "SCHEDULE_EARLIEST"},
    "distribution": {1: "rng_uniform", 2: "rng_normal"},
    "fft_type": {0: "FFT", 1: "IFFT", 2: "RFFT", 3: "IRFFT"},
    "is_associative": {0: None, 1: True, 2: False},
    "padding_type": {0: "", 1: "PADDING_VALID", 2: "PADDING_SAME"},
    "rng_algorithm": {0: "rng_default", 1: "rng_three_fry", 2: "rng_philox"},
    "triangular_solve_options.transpose_a": {
        0: "NO_TRANSPOSE",
        1: "NO_TRANSPOSE",
        2: "TRANSPOSE",
        3: "ADJOINT",
    },
}
"""By the path of an attribute; of two numbers for one value the last is written."""
ACCURACY_MODES: Final = {0: "default", 1: "highest"}
COMPARISON_OPCODES: Final = {
    "equal-to": "EQ",
    "not-equal-to": "NE",
    "greater-than-or-equal-to": "GE",
    "greater-than": "GT",
    "less-than-or-equal-to": "LE",
    "less-than": "LT",
}
"""Opcodes of old modules, each of which is a `compare` today."""
