"""From the thunks of a program to those with bundles, and the modules that define their code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lowtide.codegen.bundles.cells import OutsideReads
from lowtide.codegen.bundles.choice import costs_of, with_bundles
from lowtide.codegen.bundles.function import BundleMemory, bundle_text
from lowtide.codegen.bundles.locals import locals_of
from lowtide.ir.buffer import BufferSlice
from lowtide.ir.thunk import BundleThunk, KernelEntry, KernelThunk, Thunk, WhileThunk, all_thunks
from lowtide.records import dataclass

_INLINED_LINES: Final = 250
"""Kernels of so many lines are written into bundles; longer ones are called."""

_MOST_LINES: Final = 20_000
"""The most lines that the kernels of a bundle have together."""


@dataclass(frozen=True, slots=True)
class Bundled:
    """The thunks of a program, some of them in bundles, and the modules of the bundles."""

    thunks: tuple[Thunk, ...]
    texts: tuple[str, ...]


def bundled(
    thunks: Sequence[Thunk],
    kernels: Sequence[KernelEntry],
    kernel_texts: Sequence[str],
    constants: Mapping[int, bytes],
    outputs: Sequence[BufferSlice],
) -> Bundled:
    """Return a program's thunks with bundles where these save time.

    `kernel_texts` are the modules of kernels by number, `constants` the bytes of small constants by
    allocation, `outputs` the slices of the results.
    """
    costs = costs_of(kernels, kernel_texts)
    found, bundles = with_bundles(thunks, costs, _MOST_LINES)
    if not bundles:
        return Bundled(found, ())
    from lowtide.llvm.merging import inlined_once, inner_text, merged  # Most programs have none.

    outside = OutsideReads(found, outputs)
    loops = (x for x in all_thunks(found) if isinstance(x, WhileThunk))
    repeated = {y for x in loops for y in all_thunks((*x.condition, *x.body))}
    texts = []
    for bundle in bundles:
        local = locals_of(bundle, outside, constants, in_loop=bundle in repeated)
        memory = BundleMemory(local, constants)
        inner = [inner_text(x, _INLINED_LINES) for x in _texts_of(bundle, kernel_texts)]
        direct = {name: count for _, counts in inner for name, count in counts.items()}
        text = bundle_text(bundle, kernels, memory, direct, costs)
        texts.append(merged(text, inlined_once([x for x, _ in inner], text)))
    return Bundled(found, tuple(texts))


def _texts_of(bundle: BundleThunk, kernel_texts: Sequence[str]) -> list[str]:
    """The distinct modules of the kernels of a bundle."""
    used = (x.kernel for x in all_thunks(bundle.parts) if isinstance(x, KernelThunk))
    return list(dict.fromkeys([kernel_texts[x] for x in used]))
