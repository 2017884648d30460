"""The fields of a module besides its computations, and those of its configuration."""

from __future__ import annotations

from typing import Any, Final

from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural, naturals
from lowtide.frontend.hlo_proto.messages import new_message, parse_message, serialize
from lowtide.frontend.hlo_proto.notes import read_pairs, write_pairs
from lowtide.frontend.hlo_proto.origins import recovery_table_text, write_recovery_table
from lowtide.frontend.hlo_proto.shapes import ShapeReader, ShapeWriter
from lowtide.frontend.hlo_proto.shardings import ShardingReader, write_sharding
from lowtide.frontend.hlo_proto.sources import PayloadWriter, read_stack_frames, write_stack_frames
from lowtide.ir.module import BufferDonor, CrossProgramPrefetch, InputOutputAlias, Module
from lowtide.ir.shape import ProgramShape, Shape

_INTERPRETED: Final = (
    "name",
    "entry_computation_name",
    "computations",
    "host_program_shape",
    "id",
    "entry_computation_id",
    "schedule",
    "input_output_alias",
    "cross_program_prefetches",
    "is_dynamic",
    "spmd_output_sharding",
    "spmd_parameters_shardings",
    "use_auto_spmd_partitioning",
    "stack_frame_index",
    "buffer_donor",
    "frontend_attributes",
    "original_value_recovery_table",
    "payloads",
)
"""The fields which are not passed on as they are."""
_ALIAS_KINDS: Final = {0: False, 1: False, 2: True}
_LARGEST_COUNT: Final = 2**31


# -- reading -----------------------------------------------------------------------------------


def read_header(proto: Any, module: Module, shardings: ShardingReader, depth: int) -> None:
    """Set what the header of a module says, the entry and its layout left out."""
    module.input_output_aliases = _read_aliases(proto.input_output_alias.entries)
    module.buffer_donors = _read_donors(proto.buffer_donor.entries)
    module.cross_program_prefetches = _read_prefetches(proto.cross_program_prefetches)
    module.is_dynamic = proto.is_dynamic
    module.use_auto_spmd_partitioning = proto.use_auto_spmd_partitioning
    if proto.HasField("spmd_output_sharding"):
        module.output_sharding = shardings.read_field(proto, "spmd_output_sharding")
    parameters = []
    for i, sharding in enumerate(proto.spmd_parameters_shardings):
        try:
            parameters.append(shardings.read(sharding))
        except FieldError as error:
            raise error.under(f"spmd_parameters_shardings[{i}]") from None
    module.parameter_shardings = tuple(parameters)
    try:
        module.stack_frames = read_stack_frames(proto.stack_frame_index)
    except FieldError as error:
        raise error.under("stack_frame_index") from None
    module.frontend_attributes = read_pairs(proto.frontend_attributes)
    if proto.original_value_recovery_table.entries:
        try:
            module.origin_recovery_table = recovery_table_text(
                proto.original_value_recovery_table, depth
            )
        except FieldError as error:
            raise error.under("original_value_recovery_table") from None


def read_unknown_fields(proto: Any, module: Module) -> None:
    """Keep the fields that are not interpreted. The message is of no use afterwards."""
    for field in _INTERPRETED:
        proto.ClearField(field)
    if proto.debug_attributes:
        try:
            module.debug_attributes = read_pairs(
                parse_message("FrontendAttributes", proto.debug_attributes)
            )
            proto.ClearField("debug_attributes")
        except FieldError:
            module.debug_attributes = ()
    module.unknown_fields = serialize(proto)


def read_entry_layout(proto: Any, module: Module, shapes: ShapeReader, field: str) -> None:
    """Set the entry layout from a field of the module or its configuration, if it is there."""
    if not proto.HasField(field):
        return
    try:
        layout = shapes.program_shape(getattr(proto, field))
        _check_layout(layout, module.entry.program_shape)
    except FieldError as error:
        raise error.under(field) from None
    module.entry_layout = layout


def _check_layout(layout: ProgramShape, entry: ProgramShape) -> None:
    if len(layout.parameters) != len(entry.parameters):
        wanted, found = len(entry.parameters), len(layout.parameters)
        raise FieldError(f"the entry has {wanted} parameters, found {found}", "parameters")
    for i, (shape, parameter) in enumerate(zip(layout.parameters, entry.parameters, strict=True)):
        if not _agree(shape, parameter):
            raise FieldError(
                f"parameter {i} of the entry has shape {parameter}, found {shape}",
                f"parameters[{i}]",
            )
    if not _agree(layout.result, entry.result):
        raise FieldError(
            f"the result of the entry is {entry.result}, found {layout.result}", "result"
        )


def _agree(layout: Shape, shape: Shape) -> bool:
    """Whether two shapes are compatible; one floating point type is as good as another."""
    if layout.compatible(shape):
        return True
    leaves, wanted = list(layout.leaves()), list(shape.leaves())
    if [index for index, _ in leaves] != [index for index, _ in wanted]:
        return False
    for (_, x), (_, y) in zip(leaves, wanted, strict=True):
        both_floating = x.element_type.is_floating and y.element_type.is_floating
        if both_floating:
            x = x.with_element_type(y.element_type)
        if not x.compatible(y):
            return False
    return True


def _read_aliases(entries: Any) -> tuple[InputOutputAlias, ...]:
    aliases = []
    for i, entry in enumerate(entries):
        path = f"input_output_alias.entries[{i}]"
        aliases.append(
            InputOutputAlias(
                naturals(entry.output_shape_index, f"{path}.output_shape_index"),
                natural(entry.parameter_number, f"{path}.parameter_number"),
                naturals(entry.parameter_shape_index, f"{path}.parameter_shape_index"),
                lookup(_ALIAS_KINDS, entry.kind, f"{path}.kind"),
            )
        )
    return tuple(sorted(aliases, key=lambda alias: alias.output_index))


def _read_donors(entries: Any) -> tuple[BufferDonor, ...]:
    donors = []
    for i, entry in enumerate(entries):
        path = f"buffer_donor.entries[{i}]"
        index = naturals(entry.parameter_shape_index, f"{path}.parameter_shape_index")
        donors.append(
            BufferDonor(natural(entry.parameter_number, f"{path}.parameter_number"), index)
        )
    return tuple(sorted(donors, key=lambda donor: (donor.parameter, donor.parameter_index)))


def _read_prefetches(entries: Any) -> tuple[CrossProgramPrefetch, ...]:
    prefetches = []
    for i, entry in enumerate(entries):
        path = f"cross_program_prefetches[{i}]"
        prefetches.append(
            CrossProgramPrefetch(
                natural(entry.parameter, f"{path}.parameter"),
                naturals(entry.index, f"{path}.index"),
                natural(entry.offset, f"{path}.offset") or None,
            )
        )
    return tuple(prefetches)


def read_config(proto: Any, module: Module, shapes: ShapeReader) -> None:
    """Set what a HloModuleConfigProto says; fields that do not describe the module are left."""
    module.replica_count = natural(proto.replica_count, "replica_count", _LARGEST_COUNT) or 1
    module.num_partitions = natural(proto.num_partitions, "num_partitions", _LARGEST_COUNT) or 1
    module.alias_passthrough_params = proto.alias_passthrough_params
    if proto.use_auto_spmd_partitioning:
        module.use_auto_spmd_partitioning = True
    module.allow_spmd_sharding_propagation_to_parameters = tuple(
        proto.allow_spmd_sharding_propagation_to_parameters
    )
    module.allow_spmd_sharding_propagation_to_output = tuple(
        proto.allow_spmd_sharding_propagation_to_output
    )
    read_entry_layout(proto, module, shapes, "entry_computation_layout")


# -- writing -----------------------------------------------------------------------------------


def entry_layout(module: Module) -> ProgramShape:
    """Return the shapes of the entry with the layouts that callers use, and XLA's names."""
    layout = module.entry_layout or module.entry.program_shape
    names = tuple([f"p{i}" for i in range(len(layout.parameters))])
    return ProgramShape(layout.parameters, layout.result, names)


def write_header(module: Module, proto: Any, payloads: PayloadWriter) -> None:
    """Write what the header of a module says, the entry and its layout left out."""
    for alias in module.input_output_aliases:
        proto.input_output_alias.entries.add(
            output_shape_index=alias.output_index,
            parameter_number=alias.parameter,
            parameter_shape_index=alias.parameter_index,
            kind=2 if alias.must else 1,
        )
    for donor in module.buffer_donors:
        proto.buffer_donor.entries.add(
            parameter_number=donor.parameter, parameter_shape_index=donor.parameter_index
        )
    for prefetch in module.cross_program_prefetches:
        proto.cross_program_prefetches.add(
            parameter=prefetch.parameter, index=prefetch.index, offset=prefetch.offset or 0
        )
    proto.is_dynamic = module.is_dynamic
    proto.use_auto_spmd_partitioning = module.use_auto_spmd_partitioning
    if module.output_sharding is not None:
        write_sharding(module.output_sharding, proto.spmd_output_sharding, payloads)
    for sharding in module.parameter_shardings:
        write_sharding(sharding, proto.spmd_parameters_shardings.add(), payloads)
    if module.stack_frames:
        write_stack_frames(module.stack_frames, proto.stack_frame_index)
    write_pairs(module.frontend_attributes, proto, "frontend_attributes")
    if module.debug_attributes:
        holder = new_message("HloInstructionProto")
        write_pairs(module.debug_attributes, holder, "frontend_attributes")
        proto.debug_attributes = serialize(holder.frontend_attributes)
    if module.origin_recovery_table.strip():
        table = proto.original_value_recovery_table
        try:
            write_recovery_table(module.origin_recovery_table, table)
        except FieldError as error:
            raise error.under("original_value_recovery_table") from None


def write_config(module: Module, proto: Any, shapes: ShapeWriter) -> None:
    """Write the fields of a HloModuleConfigProto that describe the module."""
    shapes.write_program_shape(entry_layout(module), proto.entry_computation_layout)
    proto.replica_count = module.replica_count
    proto.num_partitions = module.num_partitions
    proto.use_spmd_partitioning = module.num_partitions != 1
    proto.use_auto_spmd_partitioning = module.use_auto_spmd_partitioning
    proto.alias_passthrough_params = module.alias_passthrough_params
    proto.allow_spmd_sharding_propagation_to_parameters.extend(
        module.allow_spmd_sharding_propagation_to_parameters
    )
    proto.allow_spmd_sharding_propagation_to_output.extend(
        module.allow_spmd_sharding_propagation_to_output
    )
