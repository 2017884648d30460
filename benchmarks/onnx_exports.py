"""Models with random weights, exported by PyTorch's two exporters, and quantized versions of them.

    python benchmarks/onnx_exports.py FOLDER [--only RE]

It takes torch, torchvision, timm, transformers, onnxscript, onnxruntime and onnxconverter-common.
Each model becomes a file FOLDER/NAME.onnx, and FOLDER/NAME.json says what it is fed: the sizes of
its inputs, what whole numbers are below, values of some inputs, and other sizes where sizes are
free. `onnx_exported.py` runs them.
"""

from __future__ import annotations

import argparse
import json
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import Any, Final

import torch

import onnx_export_operators
from onnx_export_nets import (
    CausalConvolutions,
    Speech,
    UNetBlock,
    Vocoder,
    detector,
    timm_net,
    vision,
)
from onnx_export_transformers import Cached, WithCache, hugging

N, S, P = "batch", "length", "past"


@dataclass(frozen=True, slots=True)
class Export:
    """A model to export.

    `make` returns it; `feeds` has the sizes of each input, "i" before them for whole numbers below
    `most`; `free` the names of free dimensions by input and axis; `other` sizes of these names for
    a second run; `old` says that the older exporter writes it, at `opset`.
    """

    make: Callable[[], torch.nn.Module]
    feeds: dict[str, tuple[Any, ...]]
    free: dict[str, dict[int, str]] = field(default_factory=dict)
    other: dict[str, int] = field(default_factory=dict)
    old: bool = False
    opset: int = 18
    most: int = 100
    values: dict[str, int] = field(default_factory=dict)


def _image(size: int, channels: int = 3) -> dict[str, tuple[Any, ...]]:
    return {"x": (1, channels, size, size)}


_BATCH: Final = {"x": {0: N}}
_WORDS: Final = {"input_ids": ("i", 1, 32), "attention_mask": ("i", 1, 32)}
_FREE_WORDS: Final = {"input_ids": {0: N, 1: S}, "attention_mask": {0: N, 1: S}}
_ONE: Final = {"attention_mask": 1}


def _nets() -> dict[str, Export]:
    """Networks for images, by both exporters."""
    found = {}
    for number, (name, size) in enumerate(
        {
            "convnext_atto": 224,
            "efficientnet_b0": 224,
            "regnety_002": 224,
            "mobilevit_xxs": 256,
            "deit_tiny_patch16_224": 224,
            "swin_tiny_patch4_window7_224": 224,
            "mixer_s32_224": 224,
            "mobilenetv4_conv_small": 224,
            "fastvit_t8": 256,
            "ghostnet_100": 224,
            "edgenext_xx_small": 256,
            "levit_128s": 224,
            "coat_lite_tiny": 224,
            "efficientvit_b0": 224,
            "hgnetv2_b0": 224,
            "repvit_m0_9": 224,
            "poolformer_s12": 224,
            "xcit_nano_12_p16_224": 224,
            "tiny_vit_5m_224": 224,
            "densenet121": 224,
        }.items()
    ):
        old, opset = [(False, 18), (True, 13), (False, 20), (True, 17)][number % 4]
        found[f"timm_{name}"] = Export(
            timm_net(name), _image(size), _BATCH, {N: 2}, old=old, opset=opset
        )
    for number, (name, size) in enumerate(
        {
            "shufflenet_v2_x1_0": 224,
            "mnasnet0_5": 224,
            "squeezenet1_1": 224,
            "resnet18": 224,
            "segmentation.lraspp_mobilenet_v3_large": 224,
            "segmentation.deeplabv3_mobilenet_v3_large": 224,
            "video.r3d_18": 0,
        }.items()
    ):
        feeds = _image(size) if size else {"x": (1, 3, 8, 64, 64)}
        old, opset = [(True, 11), (False, 18), (True, 16)][number % 3]
        name_written = name.rpartition(".")[2]
        found[f"tv_{name_written}"] = Export(
            vision(name), feeds, _BATCH, {N: 2}, old=old, opset=opset
        )
    found["tv_ssdlite320"] = Export(
        detector("ssdlite320_mobilenet_v3_large"), {"x": (3, 320, 320)}, old=True, opset=16
    )
    found["tv_fasterrcnn_mobile"] = Export(
        detector("fasterrcnn_mobilenet_v3_large_320_fpn"), {"x": (3, 320, 320)}, old=True, opset=16
    )
    found["tv_retinanet"] = Export(
        detector("retinanet_resnet50_fpn"), {"x": (3, 160, 160)}, old=True, opset=17
    )
    return found


def _language() -> dict[str, Export]:
    """Encoders and decoders of words, with and without caches."""
    cache = WithCache.names(2)
    cached = {"input_ids": ("i", 1, 1), "attention_mask": ("i", 1, 17)}
    free_cached = {
        "input_ids": {0: N, 1: S},
        "attention_mask": {0: N, 1: "total"},
        **{x: {0: N, 2: P} for x in cache},
    }

    def decoder(kind: str, heads: int, size: int, old: bool = False) -> Export:
        feeds = {**cached, **dict.fromkeys(cache, (1, heads, 16, size))}
        free = {k: {a: n for a, n in v.items() if n != N} for k, v in free_cached.items()}
        free["input_ids"] = {}
        return Export(
            lambda: Cached(hugging(kind)()),
            feeds,
            free,
            {P: 24, "total": 25},
            old=old,
            opset=17 if old else 18,
            values=_ONE,
        )

    found = {
        f"hf_{x}": Export(hugging(x), _WORDS, _FREE_WORDS, {S: 48}, old=old, opset=o, values=_ONE)
        for x, old, o in (
            ("bert", False, 18),
            ("distilbert", True, 14),
            ("roberta", False, 21),
            ("albert", True, 17),
            ("electra", False, 18),
            ("mpnet", True, 13),
            ("deberta_v2", True, 17),
            ("modernbert", False, 18),
            ("t5_encoder", False, 18),
        )
    }
    found["hf_bert_old"] = Export(
        hugging("bert"), _WORDS, _FREE_WORDS, {S: 48}, old=True, opset=12, values=_ONE
    )
    for kind, heads, size in (
        ("gpt2", 4, 64),
        ("llama", 2, 64),
        ("qwen2", 2, 64),
        ("gpt_neox", 4, 64),
        ("phi", 4, 64),
        ("mistral", 2, 64),
        ("gemma", 1, 64),
        ("opt", 4, 64),
    ):
        found[f"hf_{kind}_past"] = decoder(kind, heads, size)
    found["hf_gpt2"] = Export(
        hugging("gpt2"), _WORDS, _FREE_WORDS, {S: 48}, old=True, opset=17, values=_ONE
    )
    found["hf_llama"] = Export(hugging("llama"), _WORDS, _FREE_WORDS, {S: 48}, values=_ONE)
    found["hf_t5_decoder"] = Export(
        hugging("t5_decoder"),
        {"input_ids": ("i", 1, 8), "states": (1, 32, 256)},
        {"input_ids": {1: S}, "states": {1: "source"}},
        {S: 12, "source": 40},
    )
    found["hf_mamba"] = Export(hugging("mamba"), {"input_ids": ("i", 1, 16)})
    found["hf_rwkv"] = Export(hugging("rwkv"), {"input_ids": ("i", 1, 16)}, old=True, opset=17)
    return found


def _sounds_and_images() -> dict[str, Export]:
    """Transformers on sounds and images, recurrent networks, vocoders, parts of diffusion."""
    sound = {"x": {1: "samples"}}
    return {
        "hf_whisper_encoder": Export(hugging("whisper_encoder"), {"x": (1, 80, 3000)}),
        "hf_whisper_decoder": Export(
            hugging("whisper_decoder"),
            {"input_ids": ("i", 1, 8), "states": (1, 1500, 128)},
            {"input_ids": {1: S}},
            {S: 12},
        ),
        "hf_wav2vec2": Export(
            hugging("wav2vec2"), {"x": (1, 16000)}, sound, {"samples": 12000}, old=True, opset=17
        ),
        "hf_hubert": Export(hugging("hubert"), {"x": (1, 16000)}, sound, {"samples": 12000}),
        "hf_vit": Export(hugging("vit"), _image(224), _BATCH, {N: 2}),
        "hf_dinov2": Export(hugging("dinov2"), _image(224), _BATCH, {N: 2}),
        "hf_clip": Export(hugging("clip"), {"input_ids": ("i", 2, 16), "x": (1, 3, 64, 64)}),
        "hf_siglip": Export(
            hugging("siglip"), {"input_ids": ("i", 2, 16), "x": (1, 3, 64, 64)}, old=True, opset=17
        ),
        "hf_detr": Export(hugging("detr"), {"x": (1, 3, 256, 320)}, old=True, opset=17),
        "hf_sam": Export(
            hugging("sam"), {"x": (1, 3, 256, 256), "points": (1, 1, 2, 2)}, old=True, opset=17
        ),
        "hf_segformer": Export(
            hugging("segformer"),
            _image(256),
            {"x": {2: "h", 3: "w"}},
            {"h": 192, "w": 320},
            old=True,
            opset=17,
        ),
        "hf_table_transformer": Export(hugging("yolos"), _image(224), old=True, opset=17),
        "hf_vits": Export(
            hugging("vits"), {"input_ids": ("i", 1, 24)}, old=True, opset=17, most=30
        ),
        "hf_encodec": Export(hugging("encodec"), {"x": (1, 1, 16000)}, old=True, opset=17),
        "lstm_ctc": Export(
            lambda: Speech("LSTM"),
            {"x": (1, 120, 80)},
            {"x": {0: N, 1: S}},
            {S: 150},
            old=True,
            opset=14,
        ),
        "gru_ctc": Export(lambda: Speech("GRU"), {"x": (1, 120, 80)}, {"x": {1: S}}, {S: 150}),
        "lstm_ctc_dynamo": Export(
            lambda: Speech("LSTM"), {"x": (1, 120, 80)}, {"x": {1: S}}, {S: 150}
        ),
        "hifigan": Export(Vocoder, {"x": (1, 80, 50)}, {"x": {2: S}}, {S: 64}, old=True, opset=17),
        "hifigan_dynamo": Export(Vocoder, {"x": (1, 80, 50)}, {"x": {2: S}}, {S: 64}),
        "wavenet": Export(CausalConvolutions, {"x": (1, 64, 400)}, {"x": {2: S}}, {S: 500}),
        "unet_block": Export(
            UNetBlock,
            {"x": (1, 32, 32, 32), "t": (1, 64), "context": (1, 16, 96)},
            {"context": {1: S}},
            {S: 20},
        ),
        "unet_block_old": Export(
            UNetBlock,
            {"x": (1, 32, 32, 32), "t": (1, 64), "context": (1, 16, 96)},
            {"x": {2: "h", 3: "w"}},
            {"h": 16, "w": 24},
            old=True,
            opset=13,
        ),
    }


EXPORTS: Final = {**_nets(), **_language(), **_sounds_and_images()}


def _argument(export: Export, name: str) -> torch.Tensor:
    sizes = export.feeds[name]
    if sizes[0] != "i":
        return torch.randn(*sizes)
    if name in export.values:
        return torch.full(sizes[1:], export.values[name], dtype=torch.int64)
    return torch.randint(0, export.most, sizes[1:])


def _export(name: str, export: Export, folder: Path) -> None:
    torch.manual_seed(0)
    model = export.make().eval()
    arguments = tuple(_argument(export, x) for x in export.feeds)
    with torch.no_grad():
        found = model(*arguments)
    outputs = [f"y{i}" for i in range(len(_flat(found)))]
    path = str(folder / f"{name}.onnx")
    kept: dict[str, Any] = {"input_names": list(export.feeds), "output_names": outputs}
    if export.old:
        free = {k: v for k, v in export.free.items() if v}
        kept |= {"dynamic_axes": free, "opset_version": export.opset, "dynamo": False}
    else:
        shapes = [
            dict.fromkeys(export.free.get(x, {}), torch.export.Dim.DYNAMIC) for x in export.feeds
        ]
        kept |= {"opset_version": export.opset, "dynamo": True, "external_data": False}
        if any(shapes):
            is_packed = "given" in signature(model.forward).parameters
            kept["dynamic_shapes"] = (tuple(shapes),) if is_packed else tuple(shapes)
    with torch.no_grad():
        torch.onnx.export(model, arguments, path, **kept)
    _describe(name, export, folder)


def _flat(found: Any) -> list[torch.Tensor]:
    if isinstance(found, torch.Tensor):
        return [found]
    return [y for x in found for y in _flat(x)]


def _describe(name: str, export: Export, folder: Path) -> None:
    def sizes(other: dict[str, int]) -> dict[str, list[int]]:
        found = {}
        for key, given in export.feeds.items():
            row = list(given[1:] if given[0] == "i" else given)
            for axis, free in export.free.get(key, {}).items():
                row[axis] = other.get(free, row[axis])
            found[key] = row
        return found

    text = {
        "sizes": sizes({}),
        "most": export.most,
        "values": export.values,
        "other": sizes(export.other) if export.other else None,
        "writer": f"{'older' if export.old else 'dynamo'}, opset {export.opset}",
    }
    (folder / f"{name}.json").write_text(json.dumps(text))


def main() -> None:
    """Write the files of all models, and say which could not be exported."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", metavar="RE")
    given = parser.parse_args()
    torch.set_num_threads(1)
    onnx_export_operators.define()
    for name, export in EXPORTS.items():
        if not re.search(given.only, name) or (given.folder / f"{name}.json").exists():
            continue
        try:
            _export(name, export, given.folder)
            print(name, "exported", flush=True)
        except Exception as error:
            line = traceback.format_exception_only(error)[-1].strip().splitlines()[0][:300]
            print(name, "not exported:", line, flush=True)


if __name__ == "__main__":
    main()
