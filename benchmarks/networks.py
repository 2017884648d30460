"""Usage records of image networks, made from their architecture.

    python benchmarks/networks.py [STRATEGY ...]

prints MiB of shared objects for each network and strategy. Tensors are float32, for one image. A
convolution with its bias and activation is one task, as are pooling, concatenation and addition;
the input and the output of the network are not counted. Sources of the architectures: Howard and
others ("MobileNets", 2017), Sandler and others ("MobileNetV2", 2018), Szegedy and others
("Rethinking the Inception Architecture for Computer Vision", 2015).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from lowtide.planning import TensorUsageRecord, assign_objects
from lowtide.planning.objects.task_profile import lower_bound_offsets, lower_bound_shared_objects

FLOAT_BYTES: Final = 4
CLASSES: Final = 1001
MIB: Final = 2**20
SHOWN: Final = ("naive", "equality", "greedy_in_order", "greedy_by_breadth", "greedy_by_size")


@dataclass(frozen=True, slots=True)
class Image:
    """A tensor of `channels` planes with `side` rows and columns; None is the network's input."""

    number: int | None
    side: int
    channels: int


@dataclass(slots=True)
class Network:
    """Tasks one after the other; each makes a tensor from some that there are."""

    sizes: list[int] = field(default_factory=list)
    last_reader: list[int] = field(default_factory=list)

    def task(self, side: int, channels: int, *read: Image) -> Image:
        """Add a task that reads images and makes one."""
        number = len(self.sizes)
        for image in read:
            if image.number is not None:
                self.last_reader[image.number] = number
        self.sizes.append(side * side * channels * FLOAT_BYTES)
        self.last_reader.append(number)
        return Image(number, side, channels)

    def convolution(self, image: Image, channels: int, stride: int = 1) -> Image:
        """Add a convolution that keeps the side, divided by the stride."""
        return self.task(-(-image.side // stride), channels, image)

    def valid(self, image: Image, channels: int, stride: int = 1) -> Image:
        """Add a 3x3 convolution, or pooling, without padding."""
        return self.task((image.side - 3) // stride + 1, channels, image)

    def concatenation(self, *images: Image) -> Image:
        """Add a concatenation along the channels."""
        return self.task(images[0].side, sum([x.channels for x in images]), *images)

    def classifier(self, image: Image) -> list[TensorUsageRecord]:
        """Add global pooling, logits and a reshape; return the records.

        The softmax is one more task, which reads the last; its result is the network's output.
        """
        logits = self.task(1, CLASSES, self.task(1, image.channels, image))
        self.task(1, CLASSES, logits)
        self.last_reader[-1] += 1
        return [
            TensorUsageRecord(size, task, last)
            for task, (size, last) in enumerate(zip(self.sizes, self.last_reader, strict=True))
        ]


def mobilenet_v1() -> list[TensorUsageRecord]:
    """Return the records of MobileNet v1 for 224 x 224 pixels."""
    network = Network()
    image = network.convolution(Image(None, 224, 3), 32, 2)
    blocks = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5]
    for channels, stride in [*blocks, (1024, 2), (1024, 1)]:
        depthwise = network.convolution(image, image.channels, stride)
        image = network.convolution(depthwise, channels)
    return network.classifier(image)


def mobilenet_v2() -> list[TensorUsageRecord]:
    """Return the records of MobileNet v2 for 224 x 224 pixels."""
    network = Network()
    image = network.convolution(Image(None, 224, 3), 32, 2)
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1)]
    for expansion, channels, repeats, stride in [*stages, (6, 160, 3, 2), (6, 320, 1, 1)]:
        for repeat in range(repeats):
            image = _bottleneck(network, image, expansion, channels, 1 if repeat else stride)
    return network.classifier(network.convolution(image, 1280))


def _bottleneck(
    network: Network, image: Image, expansion: int, channels: int, stride: int
) -> Image:
    wide = image
    if expansion != 1:
        wide = network.convolution(image, image.channels * expansion)
    depthwise = network.convolution(wide, wide.channels, stride)
    narrow = network.convolution(depthwise, channels)
    if stride != 1 or image.channels != channels:
        return narrow
    return network.task(narrow.side, channels, image, narrow)


def inception_v3() -> list[TensorUsageRecord]:
    """Return the records of Inception v3 for 299 x 299 pixels."""
    network = Network()
    image = network.valid(Image(None, 299, 3), 32, 2)
    image = network.convolution(network.valid(image, 32), 64)
    image = network.valid(image, 64, 2)
    image = network.valid(network.convolution(image, 80), 192)
    image = network.valid(image, 192, 2)
    for channels in (32, 64, 64):
        image = _mixed_35(network, image, channels)
    image = _reduction_17(network, image)
    for channels in (128, 160, 160, 192):
        image = _mixed_17(network, image, channels)
    image = _reduction_8(network, image)
    for _ in range(2):
        image = _mixed_8(network, image)
    return network.classifier(image)


def _chain(network: Network, image: Image, *channels: int) -> Image:
    for count in channels:
        image = network.convolution(image, count)
    return image


def _mixed_35(network: Network, image: Image, pooled: int) -> Image:
    return network.concatenation(
        _chain(network, image, 64),
        _chain(network, image, 48, 64),
        _chain(network, image, 64, 96, 96),
        _chain(network, image, image.channels, pooled),
    )


def _reduction_17(network: Network, image: Image) -> Image:
    return network.concatenation(
        network.valid(image, 384, 2),
        network.valid(_chain(network, image, 64, 96), 96, 2),
        network.valid(image, image.channels, 2),
    )


def _mixed_17(network: Network, image: Image, width: int) -> Image:
    return network.concatenation(
        _chain(network, image, 192),
        _chain(network, image, width, width, 192),
        _chain(network, image, width, width, width, width, 192),
        _chain(network, image, image.channels, 192),
    )


def _reduction_8(network: Network, image: Image) -> Image:
    return network.concatenation(
        network.valid(_chain(network, image, 192), 320, 2),
        network.valid(_chain(network, image, 192, 192, 192), 192, 2),
        network.valid(image, image.channels, 2),
    )


def _mixed_8(network: Network, image: Image) -> Image:
    return network.concatenation(
        _chain(network, image, 320),
        _split(network, _chain(network, image, 384)),
        _split(network, _chain(network, image, 448, 384)),
        _chain(network, image, image.channels, 192),
    )


def _split(network: Network, image: Image) -> Image:
    wide, high = (network.convolution(image, 384) for _ in range(2))
    return network.concatenation(wide, high)


NETWORKS: Final[dict[str, Callable[[], list[TensorUsageRecord]]]] = {
    "MobileNet v1": mobilenet_v1,
    "MobileNet v2": mobilenet_v2,
    "Inception v3": inception_v3,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("strategies", nargs="*", default=SHOWN)
    strategies = parser.parse_args().strategies
    print("network", "tensors", "offsets bound", "objects bound", *strategies, sep="\t")
    for name, build in NETWORKS.items():
        records = build()
        bounds = [lower_bound_offsets(records), lower_bound_shared_objects(records)]
        totals = [assign_objects(records, strategy).total_size for strategy in strategies]
        print(name, len(records), *[f"{x / MIB:.3f}" for x in [*bounds, *totals]], sep="\t")


if __name__ == "__main__":
    main()
