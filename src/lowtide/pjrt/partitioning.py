"""Programs for several devices: what JAX hands in becomes the program of each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lowtide.frontend.hlo_proto import write_sharding_proto
from lowtide.ir import Module
from lowtide.ir.sharding import Sharding
from lowtide.pjrt.device_assignment import CompileOptions
from lowtide.pjrt.inspections import tell_inspections

_ATTRIBUTES: Final = ("lowtide.argument_shardings", "lowtide.result_shardings")
_SEPARATOR: Final = ";"


def program_of_each(module: Module, options: CompileOptions) -> Module:
    """Return the program that each of the devices of a compilation runs.

    It has the shapes of one device, its collectives name the others, and its attributes tell the
    shardings of arguments and results, which nothing but `shardings_of` reads. A module for one
    partition is that already. Raises what `partition` raises, and what functions of the user that
    look at shardings do.
    """
    module.replica_count, module.num_partitions = options.replicas, options.partitions
    if options.partitions == 1:
        return module
    module.allow_spmd_sharding_propagation_to_parameters = options.free_arguments
    module.allow_spmd_sharding_propagation_to_output = options.free_results
    from lowtide.spmd.partitioner import partition  # Programs of one device load nothing.

    found = partition(module)
    tell_inspections(found.inspections)
    shardings = (found.parameters, found.results)
    added = [(name, _text(x)) for name, x in zip(_ATTRIBUTES, shardings, strict=True)]
    found.module.frontend_attributes = (*found.module.frontend_attributes, *added)
    return found.module


def _text(shardings: Sequence[Sharding]) -> str:
    return _SEPARATOR.join([str(x) for x in shardings])


def shardings_of(module: Module) -> tuple[list[bytes], list[bytes]] | None:
    """Return the shardings of arguments and of results, each as an OpSharding in protobuf.

    None stands for a module that was not partitioned.
    """
    kept = dict(module.frontend_attributes)
    if _ATTRIBUTES[0] not in kept:
        return None
    from lowtide.frontend.hlo_text import parse_sharding_text

    arguments, results = [
        [write_sharding_proto(parse_sharding_text(x)) for x in kept[name].split(_SEPARATOR) if x]
        for name in _ATTRIBUTES
    ]
    return arguments, results
