"""Operators of torchvision in Python, for a torch whose libraries its own do not fit."""

from __future__ import annotations

import sys

import torch


def suppressed(boxes: torch.Tensor, scores: torch.Tensor, threshold: float) -> torch.Tensor:
    """Return the numbers of the boxes that stay, the greatest score first."""
    order = scores.argsort(descending=True, stable=True)
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while order.numel():
        first, order = int(order[0]), order[1:]
        kept.append(first)
        low = torch.maximum(boxes[first, :2], boxes[order, :2])
        high = torch.minimum(boxes[first, 2:], boxes[order, 2:])
        shared = (high - low).clamp(min=0).prod(1)
        order = order[shared <= threshold * (areas[first] + areas[order] - shared)]
    return torch.tensor(kept, dtype=torch.int64)


def _are_there() -> bool:
    return True


def define() -> None:
    """Define the operators that detectors use, unless torchvision has its own."""
    try:
        import torchvision

        return
    except RuntimeError:
        pass
    for name in [x for x in sys.modules if x.startswith("torchvision")]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, "
        "SymInt pooled_width, int sampling_ratio, bool aligned) -> Tensor"
    )
    library.impl("nms", suppressed, "CPU")
    import torchvision
    from torchvision.ops import roi_align as regions

    def region(
        x: torch.Tensor,
        boxes: torch.Tensor,
        scale: float,
        high: int,
        wide: int,
        ratio: int,
        aligned: bool,
    ) -> torch.Tensor:
        made: torch.Tensor = regions._roi_align(x, boxes, scale, high, wide, ratio, aligned)
        return made

    library.impl("roi_align", region, "CPU")
    torchvision.extension._has_ops = _are_there
    torchvision._kept_library = library  # Operators go with their library.
