"""XLA's two buffer assigners, by name: today's, and that of TensorFlow 1.14."""

from collections.abc import Callable, Mapping
from typing import Final

from lowtide.ir import Module
from lowtide.ir.buffer import BufferAssignment
from lowtide.xla.analysis.ordering import Ordering
from lowtide.xla.assigners.classic import assign_classic
from lowtide.xla.assigners.modern import assign
from lowtide.xla.assigners.options import AssignerOptions, BufferOrder, Preset

__all__ = ["ASSIGNERS", "AssignerOptions", "BufferOrder", "Preset", "assign", "assign_classic"]


ASSIGNERS: Final[Mapping[str, Callable[[Module, Ordering], BufferAssignment]]] = {
    "xla": assign,
    "xla1.14": assign_classic,
}
"""Assigners with their default options.

They expect a flat call graph, all copies in place, and donors that are tied to outputs: see
`transforms.flatten_call_graph`, `transforms.optimize_input_output_alias` and
`buffers.copy_insertion`.
"""
