"""From the bytes that JAX hands in to the module of each device."""

from __future__ import annotations

from lowtide.client.jit.lowering import refuse_callbacks, with_masks_selected
from lowtide.files.object_cache import ObjectCache
from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.ir import Module
from lowtide.pjrt.device_assignment import CompileOptions
from lowtide.pjrt.donation import tie_donors
from lowtide.pjrt.element_types import NUMBERS
from lowtide.pjrt.entry_attributes import apply_entry_attributes, entry_attributes
from lowtide.pjrt.errors import UNIMPLEMENTED, PluginError
from lowtide.pjrt.partitioning import program_of_each
from lowtide.pjrt.stablehlo import kept_hlo_of


def module_of(
    form: str, code: bytes, options: CompileOptions, cached: ObjectCache | None = None
) -> Module:
    """Return a program in one of the forms "mlir", which is portable StableHLO, and "hlo".

    The HLO of StableHLO is taken from `cached`, where it is there.
    It is that of each device. Of StableHLO the entry has the layouts that its attributes ask for.
    Raises PluginError for another form, and for what lowtide cannot call or pass on.
    """
    if form not in ("mlir", "hlo"):
        raise PluginError(UNIMPLEMENTED, f"programs come as 'mlir' or 'hlo', not as {form!r}")
    module = read_hlo_proto(
        kept_hlo_of(code, cached or ObjectCache(None)) if form == "mlir" else code
    )
    refuse_callbacks(module)
    module = program_of_each(with_masks_selected(module), options)
    if form == "mlir":
        apply_entry_attributes(module, entry_attributes(code))
    tie_donors(module)
    _refuse_others(module)
    return module


def _refuse_others(module: Module) -> None:
    """Raise PluginError where what goes in or out is neither an array of a known type nor a token.

    A token is ready when the call has returned, so that calls which pass it on run in order.
    """
    root = module.entry.root.shape
    given = [x.shape for x in module.entry.parameters]
    results = root.tuple_shapes if root.is_tuple else (root,)
    for shape in (*given, *results):
        if not shape.is_token and not (shape.is_array and shape.element_type in NUMBERS):
            raise PluginError(
                UNIMPLEMENTED, f"{module.name} takes or returns {shape}: only arrays and tokens may"
            )
