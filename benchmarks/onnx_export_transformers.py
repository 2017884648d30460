"""Small models of transformers with random weights that `onnx_exports.py` exports."""

from __future__ import annotations

from typing import Any

from torch import nn

from onnx_export_nets import Maker


class WithCache(nn.Module):
    """A decoder of transformers whose cache comes and goes as arrays, two for a layer."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    @staticmethod
    def names(layers: int) -> list[str]:
        """Return the names of the cache's arrays."""
        return [f"past_{i}_{x}" for i in range(layers) for x in ("key", "value")]

    def forward(self, input_ids: Any, attention_mask: Any, *past: Any) -> Any:
        """Return the results."""
        from transformers import DynamicCache

        cache = DynamicCache()
        for i in range(len(past) // 2):
            cache.update(past[2 * i], past[2 * i + 1], i)
        found = self.inner(
            input_ids=input_ids,
            attention_mask=attention_mask,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
        )
        kept = [y for x in cache.layers for y in (x.keys, x.values)]
        return (found.logits, *kept)


class Cached(nn.Module):
    """A decoder of two layers with its four arrays as separate arguments."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = WithCache(inner.inner)

    def forward(self, input_ids: Any, attention_mask: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
        """Return the results."""
        return self.inner(input_ids, attention_mask, a, b, c, d)


class Masked(nn.Module):
    """A model of transformers on words with a mask; its first result."""

    def __init__(self, inner: Any, **more: Any) -> None:
        super().__init__()
        self.inner, self.more = inner, more

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        """Return the results."""
        more = {"input_ids": input_ids, "attention_mask": attention_mask, **self.more}
        return self.inner(**more, return_dict=False)[0]


class First(nn.Module):
    """A model of transformers by names of its arguments; some of its results by name."""

    def __init__(self, inner: Any, names: list[str], results: list[str], **more: Any) -> None:
        super().__init__()
        self.inner, self.names, self.results, self.more = inner, names, results, more

    def forward(self, *given: Any) -> Any:
        """Return the results."""
        found = self.inner(**dict(zip(self.names, given, strict=True)), **self.more)
        return tuple(found[x] for x in self.results)


_ENCODER = {
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
}
_DECODER = {
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 1024,
    "vocab_size": 2000,
}
_CLASSES = {
    "bert": ("BertConfig", "BertModel", {}),
    "distilbert": (
        "DistilBertConfig",
        "DistilBertModel",
        {"dim": 256, "n_layers": 4, "n_heads": 4, "hidden_dim": 1024},
    ),
    "roberta": ("RobertaConfig", "RobertaForMaskedLM", {"vocab_size": 4000}),
    "albert": ("AlbertConfig", "AlbertModel", {}),
    "electra": ("ElectraConfig", "ElectraModel", {}),
    "mpnet": ("MPNetConfig", "MPNetModel", {}),
    "deberta_v2": (
        "DebertaV2Config",
        "DebertaV2Model",
        {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "max_relative_positions": 64},
    ),
    "modernbert": (
        "ModernBertConfig",
        "ModernBertModel",
        {"attn_implementation": "eager", "reference_compile": False},
    ),
}
_DECODERS = {
    "gpt2": (
        "GPT2Config",
        "GPT2LMHeadModel",
        {"n_embd": 256, "n_layer": 2, "n_head": 4, "vocab_size": 2000},
    ),
    "llama": ("LlamaConfig", "LlamaForCausalLM", {**_DECODER, "num_key_value_heads": 2}),
    "qwen2": ("Qwen2Config", "Qwen2ForCausalLM", {**_DECODER, "num_key_value_heads": 2}),
    "mistral": ("MistralConfig", "MistralForCausalLM", {**_DECODER, "num_key_value_heads": 2}),
    "gemma": (
        "GemmaConfig",
        "GemmaForCausalLM",
        {**_DECODER, "num_key_value_heads": 1, "head_dim": 64},
    ),
    "gpt_neox": ("GPTNeoXConfig", "GPTNeoXForCausalLM", _DECODER),
    "phi": ("PhiConfig", "PhiForCausalLM", {**_DECODER, "num_key_value_heads": 4}),
    "opt": (
        "OPTConfig",
        "OPTForCausalLM",
        {
            "hidden_size": 256,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "ffn_dim": 1024,
            "vocab_size": 2000,
            "word_embed_proj_dim": 256,
        },
    ),
}


def hugging(name: str) -> Maker:
    """Return a maker of a small model of transformers."""

    def make() -> nn.Module:
        import transformers

        if name in _CLASSES:
            config, model, more = _CLASSES[name]
            made = getattr(transformers, config)(**{**_ENCODER, **more})
            return Masked(getattr(transformers, model)(made).eval())
        if name in _DECODERS:
            config, model, more = _DECODERS[name]
            made = getattr(transformers, config)(**more)
            return Masked(getattr(transformers, model)(made).eval(), use_cache=False)
        return globals()[f"_{name}"](transformers)

    return make


def _t5(t: Any) -> Any:
    return t.T5Config(d_model=256, d_kv=64, d_ff=512, num_layers=2, num_heads=4, vocab_size=2000)


def _t5_encoder(t: Any) -> nn.Module:
    return Masked(t.T5EncoderModel(_t5(t)))


def _t5_decoder(t: Any) -> nn.Module:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            whole = t.T5ForConditionalGeneration(_t5(t))
            self.decoder, self.head = whole.decoder, whole.lm_head

        def forward(self, input_ids: Any, states: Any) -> Any:
            """Return the results."""
            found = self.decoder(input_ids=input_ids, encoder_hidden_states=states, use_cache=False)
            return self.head(found.last_hidden_state)

    return Decoder()


def _mamba(t: Any) -> nn.Module:
    config = t.MambaConfig(hidden_size=128, num_hidden_layers=2, vocab_size=1000, use_mambapy=False)
    return First(t.MambaForCausalLM(config), ["input_ids"], ["logits"], use_cache=False)


def _rwkv(t: Any) -> nn.Module:
    config = t.RwkvConfig(hidden_size=128, num_hidden_layers=2, vocab_size=1000, context_length=64)
    return First(t.RwkvForCausalLM(config), ["input_ids"], ["logits"], use_cache=False)


def _whisper(t: Any) -> Any:
    return t.WhisperConfig(
        d_model=128,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        vocab_size=2000,
        decoder_attention_heads=4,
        encoder_ffn_dim=512,
        decoder_ffn_dim=512,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )


def _whisper_encoder(t: Any) -> nn.Module:
    return First(t.WhisperModel(_whisper(t)).encoder, ["input_features"], ["last_hidden_state"])


def _whisper_decoder(t: Any) -> nn.Module:
    names = ["input_ids", "encoder_hidden_states"]
    return First(t.WhisperModel(_whisper(t)).decoder, names, ["last_hidden_state"], use_cache=False)


def _sound(**more: Any) -> dict[str, Any]:
    return {**_ENCODER, "num_hidden_layers": 2, "conv_dim": (128,) * 7, "vocab_size": 32, **more}


def _wav2vec2(t: Any) -> nn.Module:
    return First(t.Wav2Vec2ForCTC(t.Wav2Vec2Config(**_sound())), ["input_values"], ["logits"])


def _hubert(t: Any) -> nn.Module:
    return First(t.HubertForCTC(t.HubertConfig(**_sound())), ["input_values"], ["logits"])


def _vit(t: Any) -> nn.Module:
    model = t.ViTModel(t.ViTConfig(**_ENCODER))
    return First(model, ["pixel_values"], ["last_hidden_state", "pooler_output"])


def _dinov2(t: Any) -> nn.Module:
    model = t.Dinov2Model(t.Dinov2Config(**{**_ENCODER, "patch_size": 14}))
    return First(model, ["pixel_values"], ["last_hidden_state"])


def _two(t: Any, kind: str) -> nn.Module:
    text = {
        **_ENCODER,
        "num_hidden_layers": 2,
        "vocab_size": 1000,
        "max_position_embeddings": 64,
        "eos_token_id": 99,
    }
    image = {**_ENCODER, "num_hidden_layers": 2, "image_size": 64, "patch_size": 16}
    config = getattr(t, f"{kind}Config")(text_config=text, vision_config=image)
    names = ["input_ids", "pixel_values"]
    return First(
        getattr(t, f"{kind}Model")(config),
        names,
        ["logits_per_image", "text_embeds", "image_embeds"],
    )


def _clip(t: Any) -> nn.Module:
    return _two(t, "CLIP")


def _siglip(t: Any) -> nn.Module:
    return _two(t, "Siglip")


def _detr(t: Any) -> nn.Module:
    config = t.DetrConfig(
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        d_model=128,
        num_queries=20,
        backbone_config=t.ResNetConfig(out_features=["stage4"]),
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
    )
    return First(t.DetrForObjectDetection(config), ["pixel_values"], ["logits", "pred_boxes"])


def _sam(t: Any) -> nn.Module:
    image = {
        "hidden_size": 96,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "mlp_dim": 192,
        "image_size": 256,
        "output_channels": 64,
        "global_attn_indexes": [1, 3],
        "window_size": 7,
    }
    config = t.SamConfig(
        vision_config=image,
        prompt_encoder_config={"hidden_size": 64, "image_size": 256},
        mask_decoder_config={
            "hidden_size": 64,
            "mlp_dim": 128,
            "num_attention_heads": 4,
            "iou_head_hidden_dim": 64,
        },
    )
    return First(t.SamModel(config), ["pixel_values", "input_points"], ["iou_scores", "pred_masks"])


def _segformer(t: Any) -> nn.Module:
    return First(
        t.SegformerForSemanticSegmentation(t.SegformerConfig()), ["pixel_values"], ["logits"]
    )


def _yolos(t: Any) -> nn.Module:
    config = t.YolosConfig(**{**_ENCODER, "image_size": [224, 224]})
    return First(t.YolosForObjectDetection(config), ["pixel_values"], ["logits", "pred_boxes"])


def _vits(t: Any) -> nn.Module:
    config = t.VitsConfig(
        hidden_size=64,
        num_hidden_layers=2,
        ffn_dim=128,
        upsample_initial_channel=64,
        flow_size=64,
        spectrogram_bins=65,
        wavenet_dilation_rate=1,
        prior_encoder_num_flows=2,
        noise_scale=0.0,
        noise_scale_duration=0.0,
    )
    model = t.VitsModel(config)
    model.noise_scale = model.noise_scale_duration = 0.0
    return First(model, ["input_ids"], ["waveform"])


def _encodec(t: Any) -> nn.Module:
    config = t.EncodecConfig(
        num_filters=8, hidden_size=32, codebook_dim=32, target_bandwidths=[6.0]
    )
    return First(t.EncodecModel(config), ["input_values"], ["audio_values"])
