"""Inspections: functions of the user that are told how a value inside of a program is divided.

JAX's own call has the address of a function in its configuration, which XLA's partitioner follows.
Here the call has a number, and the function is called once the program of each device is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from lowtide.host_calls.functions import NUMBER, HostFunction, function_named
from lowtide.pjrt import PLATFORM

if TYPE_CHECKING:
    from lowtide.spmd.partitioner import Inspection


def register_inspections() -> None:
    """Have `jax.debug.inspect_array_sharding` in a program make such a call."""
    from jax._src import debugging
    from jax._src.interpreters import mlir

    home: Any = debugging
    rules: Any = mlir
    usual = rules._lowerings[home.inspect_sharding_p].rule
    rules.register_lowering(home.inspect_sharding_p, partial(_lower, usual), platform=PLATFORM)


def _lower(usual: Any, ctx: Any, value: Any, *, callback: Callable[[Any], Any]) -> Any:
    from jax._src import ffi

    from lowtide.spmd.annotations import INSPECTION_TARGET  # Programs of one device load nothing.

    mesh, devices = _mesh_of(ctx.module_context.axis_context)
    if len(devices) == 1:  # JAX tells at once what there is to tell of one device.
        return usual(ctx, value, callback=callback)
    function = HostFunction(partial(_tell, mesh, devices, callback), "inspect_array_sharding")
    ctx.module_context.add_keepalive(function)
    write: Any = ffi.build_ffi_lowering_function(INSPECTION_TARGET, has_side_effect=True)
    write(ctx, value, **{NUMBER: np.uint64(function.number)})
    return []


def _mesh_of(place: Any) -> tuple[Any, Sequence[Any]]:
    """The mesh by whose axes a sharding is told, which may be empty, and the devices."""
    from jax._src import mesh as meshes

    home: Any = meshes
    if hasattr(place, "manual_axes"):
        return place.mesh, place.mesh._flat_devices_tuple
    devices, abstract = place.device_assignment, place.abstract_mesh
    if abstract is None:
        return home.thread_resources.env.physical_mesh, devices
    grid = np.array(devices).reshape(abstract.axis_sizes)
    return home.Mesh(grid, abstract.axis_names), devices


def _tell(
    mesh: Any, devices: Sequence[Any], callback: Callable[[Any], Any], serialized: bytes
) -> tuple[()]:
    """Call a function of the user with a sharding, which comes as an OpSharding in protobuf."""
    from jax._src import sharding_impls
    from jaxlib import xla_client

    library: Any = xla_client
    forms: Any = sharding_impls
    proto = library.OpSharding()
    proto.ParseFromString(serialized)
    sharding = library.HloSharding.from_proto(proto)
    if mesh.empty:
        callback(forms.GSPMDSharding(devices, sharding))
    else:
        (spec,) = forms.parse_flatten_op_sharding(sharding, mesh)
        callback(forms.NamedSharding(mesh, spec))
    return ()


def tell_inspections(inspections: Sequence[Inspection]) -> None:
    """Call the functions of all inspections of a program, in its order; raises what they raise."""
    from lowtide.frontend.hlo_proto import write_sharding_proto

    for x in inspections:
        function_named(x.config).function(write_sharding_proto(x.sharding))
