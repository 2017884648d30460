"""Lists of devices in the short form that XLA calls iota."""

from __future__ import annotations

import math
from itertools import pairwise

from lowtide.records import dataclass


@dataclass(frozen=True, slots=True)
class IotaDevices:
    """The devices 0, 1, ... reshaped to `reshape_dims` and transposed: `<=[4,2]T(1,0)`.

    `permutation` is empty where nothing is transposed.
    """

    reshape_dims: tuple[int, ...]
    permutation: tuple[int, ...] = ()

    def __str__(self) -> str:
        text = f"<=[{','.join(map(str, self.reshape_dims))}]"
        if self.permutation:
            text += f"T({','.join(map(str, self.permutation))})"
        return text

    def simplified(self) -> IotaDevices:
        """Return the same devices without dimensions of size 1, neighbours that stay joined."""
        dims = self.reshape_dims
        axes = [a for a in self.permutation or range(len(dims)) if dims[a] != 1]
        runs: list[list[int]] = []
        following = dict(pairwise(sorted(axes)))
        for axis in axes:
            if runs and following.get(runs[-1][-1]) == axis:
                runs[-1].append(axis)
            else:
                runs.append([axis])
        if len(runs) <= 1:
            return IotaDevices((math.prod(dims),))
        order = sorted(range(len(runs)), key=lambda i: runs[i][0])
        sizes = tuple([math.prod([dims[a] for a in runs[i]]) for i in order])
        return IotaDevices(sizes, tuple([order.index(i) for i in range(len(runs))]))

    def as_list(self) -> list[int]:
        """Return the device numbers, row major after the transpose."""
        dims = self.reshape_dims
        strides = [math.prod(dims[i + 1 :]) for i in range(len(dims))]
        devices = [0]
        for axis in self.permutation or range(len(dims)):
            devices = [d + i * strides[axis] for d in devices for i in range(dims[axis])]
        return devices
