"""Functions of `jax.experimental.buffer_callback`, which write their results into buffers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from lowtide.records import dataclass

_ON_PROCESSOR: Final = (1, 0)
"""DLPack's number for a processor, and which of them."""


@dataclass(frozen=True, eq=False, slots=True)
class HostBuffer:
    """A buffer as such a function gets it: `np.asarray` and DLPack share its memory."""

    array: Any
    writeable: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the dimensions."""
        found: tuple[int, ...] = self.array.shape
        return found

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        """The element type, NumPy's."""
        return self.array.dtype

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __dlpack__(self, **how: Any) -> Any:
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _ON_PROCESSOR


@dataclass(frozen=True, slots=True)
class HostContext:
    """What such a function is told of its call: the stage. There are no streams."""

    stage: Any

    @property
    def stream(self) -> int:
        """Nothing; raises NotImplementedError."""
        raise NotImplementedError("a processor has no streams: they are those of GPUs")


def in_buffers(
    callback: Callable[..., Any],
    trees: tuple[Any, Any],
    shapes: Sequence[Any],
    aliases: Sequence[tuple[int, int]],
) -> Callable[..., Sequence[Any]]:
    """Return the function from arrays to results that gives buffers to one of JAX's callbacks.

    `trees` are the structures of its arguments and of its results, `shapes` what the results are
    like; `aliases` has pairs of an argument and the result that begins as that. The others begin
    as zeros. It raises ValueError for a callback that returns anything.
    """
    from jax._src import buffer_callback

    home: Any = buffer_callback
    context = HostContext(home.ExecutionStage.EXECUTE)
    sources = {result: argument for argument, result in aliases}

    def called(*arrays: Any) -> Sequence[Any]:
        results = [
            np.array(arrays[sources[i]]) if i in sources else np.zeros(x.shape, x.dtype)
            for i, x in enumerate(shapes)
        ]
        given, keywords = trees[0].unflatten([HostBuffer(x, False) for x in arrays])
        made = trees[1].unflatten([HostBuffer(x, True) for x in results])
        if callback(context, made, *given, **keywords) is not None:
            raise ValueError("buffer_callback callback must not return any values.")
        return results

    return called
