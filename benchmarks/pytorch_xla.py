"""HLO that PyTorch/XLA makes of networks and training steps, beside what it gives for them.

    python benchmarks/pytorch_xla.py record FOLDER     (where torch and torch_xla are installed)
    python benchmarks/pytorch_xla.py compare FOLDER    (where lowtide is)

The first form writes, for each program, its HloModuleProto and an `.npz` of the arguments in the
order of the parameters and of the results on XLA:CPU; with `transformers` also two layers of each
of its architectures, untrained. The second one runs each by lowtide and prints the largest
difference of a result, relative to its largest magnitude. Exit status 1 where one is above 1e-4.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Case = tuple[str, Callable[..., Any], list[Any], bool]
"""A name, a function or network, its arguments, and whether its gradients are wanted too."""


def plain_cases() -> Iterator[Case]:
    """Networks out of the layers of PyTorch, and functions."""
    import torch
    import torch.nn.functional as f
    from torch import nn

    a = torch.randn
    flat = [nn.Flatten(), nn.Linear(72, 5)]
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), *flat)
    yield "convolutions", net.eval(), [a(2, 3, 8, 8)], False
    up = nn.Upsample(scale_factor=2, mode="bilinear")
    net = nn.Sequential(nn.ConvTranspose2d(4, 6, 3, stride=2), nn.GroupNorm(2, 6), nn.SiLU(), up)
    yield "transposed convolutions", net, [a(2, 4, 5, 5)], True
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
    yield "transformer layer", layer, [a(2, 7, 32)], True
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        made = kind(8, 12, 2, batch_first=True, bidirectional=True)
        yield kind.__name__, _first_of(made), [a(2, 6, 8)], False
        one = kind(8, 12, batch_first=True)
        yield f"{kind.__name__} trained", _first_of(one), [a(2, 24, 8)], True

    def choose(x: Any, i: Any) -> Any:
        wide = i[:, None].expand(3, 2)
        several = x[i], x.index_add(0, i, x[:3]), x.scatter(1, wide, 1.5), torch.topk(x, 3)[0]
        return *several, torch.sort(x, 1)[1], x.cumsum(0), x.flip(1), torch.roll(x, 2, 0)

    yield "indices", choose, [a(8, 6), torch.tensor([1, 3, 4])], False

    def matrices(x: Any) -> Any:
        s = x @ x.mT + 3 * torch.eye(5, device=x.device)
        found = torch.linalg.cholesky(s), torch.linalg.inv(s), torch.linalg.slogdet(s)[1]
        return *found, torch.linalg.qr(x)[1].abs(), torch.linalg.eigh(s)[0], torch.linalg.svd(x)[1]

    yield "matrices", matrices, [a(3, 5, 5)], False

    def numbers(x: Any) -> Any:
        special = torch.special.erfinv(torch.tanh(x) * 0.9), torch.logsumexp(x, 1), x.std(1)
        return *special, x.fmod(0.7), x.remainder(0.7), x.round(), f.avg_pool2d(x[None], 2)

    yield "numbers", numbers, [a(4, 8)], False

    def attend(q: Any, k: Any, v: Any) -> Any:
        return f.scaled_dot_product_attention(q, k, v, is_causal=True)

    yield "attention", attend, [a(2, 3, 9, 8), a(2, 3, 9, 8), a(2, 3, 9, 8)], False


def _first_of(made: Any) -> Any:
    from torch import nn

    class First(nn.Module):
        """A recurrent network without its last state."""

        def __init__(self) -> None:
            super().__init__()
            self.made = made

        def forward(self, x: Any) -> Any:
            return self.made(x)[0]

    return First()


def transformer_cases() -> Iterator[Case]:
    """Two layers of architectures of `transformers`, if it is installed, with their gradients."""
    import torch

    try:
        import transformers as t
    except ImportError:
        return
    sizes: dict[str, Any] = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 128,
        "vocab_size": 100,
    }
    image = {k: v for k, v in sizes.items() if k != "vocab_size"} | {
        "image_size": 32,
        "patch_size": 8,
    }
    words, pixels = torch.randint(0, 100, (2, 12)), torch.randn(2, 3, 32, 32)
    gpt2 = t.GPT2Config(n_embd=64, n_layer=2, n_head=4, vocab_size=100, use_cache=False)
    few = sizes | {"num_key_value_heads": 2, "use_cache": False}
    for made, given in (
        (t.BertModel(t.BertConfig(**sizes)), words),
        (t.GPT2LMHeadModel(gpt2), words),
        (t.LlamaForCausalLM(t.LlamaConfig(**few)), words),
        (t.MixtralForCausalLM(t.MixtralConfig(num_local_experts=4, **few)), words),
        (t.DebertaV2Model(t.DebertaV2Config(relative_attention=True, **sizes)), words),
        (t.ViTModel(t.ViTConfig(**image)), pixels),
        (t.CLIPVisionModel(t.CLIPVisionConfig(**image)), pixels),
        (t.ConvNextModel(t.ConvNextConfig(depths=[1] * 4, hidden_sizes=[16] * 4)), pixels),
    ):
        yield type(made).__name__, made.eval(), [given], True


def record(folder: Path) -> None:
    """Write the programs, in an environment that has PyTorch/XLA."""
    os.environ["PJRT_DEVICE"] = "CPU"
    import torch
    import torch_xla

    torch.manual_seed(0)
    device = torch_xla.device()
    folder.mkdir(parents=True, exist_ok=True)
    for cases in (plain_cases, transformer_cases):
        for name, made, given, trained in cases():
            made = made.to(device) if isinstance(made, torch.nn.Module) else made
            found = made(*[x.to(device) for x in given])
            found = found[0] if hasattr(found, "to_tuple") else found
            results = list(found) if isinstance(found, tuple | list) else [found]
            if trained:  # By a sum that no normalization makes constant.
                first = results[0].flatten()
                loss = (first * torch.sin(torch.arange(first.numel(), device=device))).sum()
                loss.backward()
                grown = [p.grad for p in made.parameters() if p.grad is not None]
                results = [loss, *grown]
            _write(folder / name.replace(" ", "_"), torch_xla, results)
            print(name)


def _write(path: Path, torch_xla: Any, results: list[Any]) -> None:
    own = torch_xla._XLAC
    path.with_suffix(".pb").write_bytes(own._get_xla_tensors_hlo_proto(results))
    _, arguments = own._get_tensors_xla_device_data_node(results)
    arrays = {f"a{i}": x.cpu().detach().numpy() for i, x in enumerate(arguments)}
    torch_xla.sync()
    arrays |= {f"r{i}": x.cpu().detach().numpy() for i, x in enumerate(results)}
    np.savez(path.with_suffix(".npz"), **arrays)


def compare(folder: Path) -> int:
    """Run the programs of a folder; return how many differ."""
    import lowtide
    from lowtide.ir.literal import DTYPES

    wrong = 0
    for path in sorted(folder.glob("*.pb")):
        with np.load(path.with_suffix(".npz")) as kept:
            given = [kept[f"a{i}"] for i in range(sum(x[0] == "a" for x in kept.files))]
            expected = [kept[f"r{i}"] for i in range(sum(x[0] == "r" for x in kept.files))]
        module = lowtide.read(path)
        types = [DTYPES[x.shape.element_type] for x in module.entry.parameters]
        found = lowtide.compile(module)(*[x.astype(t) for x, t in zip(given, types, strict=True)])
        pairs = list(zip(found, expected, strict=True))
        greatest = max([float(np.abs(y).max(initial=0)) for y in expected])
        worst = max([_difference(x, y, greatest) for x, y in pairs])
        wrong += not worst <= 1e-4
        print(f"{path.stem:28} {module.instruction_count:6,}  {len(pairs):3}  {worst:.1e}")
    return wrong


def _difference(found: Any, expected: Any, greatest: float) -> float:
    """Relative to a result, or to a millionth of the greatest: gradients that cancel are noise."""
    scale = max(float(np.abs(expected).max(initial=0)), 1e-4 * greatest, 1e-30)
    return float(np.abs(np.asarray(found, float) - expected).max(initial=0)) / scale


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", folder]:
            record(Path(folder))
        case ["compare", folder]:
            sys.exit(compare(Path(folder)) > 0)
        case _:
            sys.exit(__doc__)
