"""Networks with random weights that `onnx_exports.py` exports: of libraries, and small ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Maker = Callable[[], nn.Module]


def timm_net(name: str) -> Maker:
    """Return a maker of a network of timm."""

    def make() -> nn.Module:
        import timm

        return timm.create_model(name, pretrained=False)

    return make


def vision(name: str) -> Maker:
    """Return a maker of a network of torchvision."""

    def make() -> nn.Module:
        from torchvision import models

        part, _, last = name.rpartition(".")
        room = getattr(models, part) if part else models
        more = {"weights_backbone": None} if part == "segmentation" else {}
        return Maps(getattr(room, last)(weights=None, **more))

    return make


class Maps(nn.Module):
    """A network whose result, where it is a mapping, is given as a tuple."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Any:
        """Return the results."""
        found = self.inner(x)
        return tuple(found.values()) if isinstance(found, dict) else found


def detector(name: str) -> Maker:
    """Return a maker of a detector of torchvision, which takes one image without a batch."""

    class One(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: torch.Tensor) -> Any:
            """Return the results."""
            found = self.inner([x])
            return tuple(found[0].values())

    def make() -> nn.Module:
        from torchvision.models import detection

        return One(getattr(detection, name)(weights=None, weights_backbone=None))

    return make


class Speech(nn.Module):
    """Two convolutions, three recurrent layers both ways, and a score for each letter."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.first = nn.Sequential(
            nn.Conv2d(1, 16, 3, (1, 2), 1),
            nn.BatchNorm2d(16),
            nn.Hardtanh(0, 20),
            nn.Conv2d(16, 16, 3, (1, 2), 1),
            nn.BatchNorm2d(16),
            nn.Hardtanh(0, 20),
        )
        self.layers = getattr(nn, kind)(320, 160, 3, batch_first=True, bidirectional=True)
        self.last = nn.Linear(320, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the results."""
        x = self.first(x[:, None]).transpose(1, 2).flatten(2)
        return functional.log_softmax(self.last(self.layers(x)[0]), -1)


class Vocoder(nn.Module):
    """HiFi-GAN's generator in small: transposed convolutions, and dilated ones beside them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(80, 128, 7, padding=3)
        sizes = [(128, 64, 16, 8), (64, 32, 16, 8), (32, 16, 4, 2), (16, 8, 4, 2)]
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(a, b, k, s, (k - s) // 2) for a, b, k, s in sizes
        )
        self.sides = nn.ModuleList(
            nn.ModuleList(
                nn.Conv1d(b, b, k, dilation=d, padding=d * (k - 1) // 2)
                for k in (3, 7)
                for d in (1, 3, 5)
            )
            for _, b, _, _ in sizes
        )
        self.last = nn.Conv1d(8, 1, 7, padding=3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the results."""
        x = self.first(x)
        for up, side in zip(self.ups, self.sides, strict=True):
            x = up(functional.leaky_relu(x, 0.1))
            for layer in side:
                x = x + layer(functional.leaky_relu(x, 0.1))
        return torch.tanh(self.last(functional.leaky_relu(x)))


class CausalConvolutions(nn.Module):
    """A stack of gated dilated convolutions that look back only, with sums of all layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(64, 128, 3, dilation=2**i) for i in range(6))
        self.mixes = nn.ModuleList(nn.Conv1d(64, 64, 1) for _ in range(6))
        self.last = nn.Conv1d(64, 16, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the results."""
        total = torch.zeros_like(x)
        for layer, mix in zip(self.layers, self.mixes, strict=True):
            a, b = layer(functional.pad(x, (2 * layer.dilation[0], 0))).chunk(2, 1)
            gated = mix(torch.tanh(a) * torch.sigmoid(b))
            x, total = x + gated, total + gated
        return self.last(functional.relu(total))


class UNetBlock(nn.Module):
    """A block of a diffusion network: residual, attention on itself and a text, down and up."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.GroupNorm(8, 32) for _ in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(32, 32, 3, padding=1) for _ in range(2))
        self.time = nn.Linear(64, 32)
        self.itself = nn.MultiheadAttention(32, 4, batch_first=True)
        self.text = nn.MultiheadAttention(32, 4, kdim=96, vdim=96, batch_first=True)
        self.wide, self.narrow = nn.Linear(32, 256), nn.Linear(128, 32)
        self.down = nn.Conv2d(32, 64, 3, 2, 1)
        self.up = nn.Conv2d(64, 32, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        """Return the results."""
        kept = x
        x = (
            self.convs[0](functional.silu(self.norms[0](x)))
            + self.time(functional.silu(t))[:, :, None, None]
        )
        x = kept + self.convs[1](functional.silu(self.norms[1](x)))
        rows = self.norms[2](x).flatten(2).transpose(1, 2)
        rows = rows + self.itself(rows, rows, rows, need_weights=False)[0]
        rows = rows + self.text(rows, context, context, need_weights=False)[0]
        a, b = self.wide(functional.layer_norm(rows, (32,))).chunk(2, -1)
        rows = rows + self.narrow(a * functional.gelu(b))
        x = x + rows.transpose(1, 2).reshape(x.shape)
        return x + self.up(
            functional.interpolate(functional.silu(self.down(x)), scale_factor=2.0, mode="nearest")
        )
