"""The messages of HLO's protobuf form: names, field numbers and types, as a table.

Each message is a list of `name=number:type`. Behind the type, `*` means repeated, `?` a scalar
whose presence counts, `@group` a member of a oneof. Enums are spelled int32, which is the same on
the wire; maps are spelled as the repeated entries which they are there.

The fields of attribute records name their fields here by path. The numbers stand here and not with
the records, since several records share one number (`dimensions`, `is_stable`), and since one look
at a message has to show which numbers are taken.

Some fields are declared looser than XLA does, without a difference on the wire:
  * `LiteralProto.f32s` and its like are the packed bytes of the numbers, one chunk per run
    (`ElementwiseLiteral` has their plain types, for a writer which does not pack);
  * `is_stable` and `channel_id` keep apart "absent" and "0", which XLA takes for the same;
  * `HloModuleProto.debug_attributes` is raw.
A few fields, with numbers from 536870100 on, are our own and skipped by other readers:
  * `LiteralProto.elided` marks a constant which the text showed as `{...}`;
  * `BufferAllocationProto.kept_bytes` marks an arena of outputs and temporaries: the bytes of the
    former;
  * `LogicalBufferProto.call_site`, `live_first` and `live_last` are those of an `AssignedValue`,
    and `BufferAlias.buffer_id` says which of several values at its location is meant.
"""

from __future__ import annotations

from typing import Final

_SMALL_LITERALS: Final = (
    "s1s=30:bytes s2s=26:bytes s4s=21:bytes s8s=15:bytes u1s=31:bytes u2s=27:bytes u4s=22:bytes "
    "u8s=3:bytes f16s=11:bytes bf16s=13:bytes u16s=16:bytes s16s=17:bytes f4e2m1fns=32:bytes "
    "f8e3m4s=29:bytes f8e4m3b11fnuzs=23:bytes f8e4m3fns=20:bytes f8e4m3fnuzs=25:bytes "
    "f8e4m3s=28:bytes f8e5m2fnuzs=24:bytes f8e5m2s=19:bytes f8e8m0fnus=33:bytes "
    "f6e3m2fns=35:bytes f6e2m3fns=36:bytes"
)
_INTEGER_LITERALS: Final = "preds=2:bool* s32s=4:int32* s64s=5:int64* u32s=6:uint32* u64s=7:uint64*"

MESSAGES: Final[dict[str, str]] = {
    # -- modules -------------------------------------------------------------------------------
    "HloProto": "hlo_module=1:HloModuleProto buffer_assignment=3:bytes",
    "HloSnapshot": (
        "hlo=1:HloProto arguments=2:LiteralProto* result=3:LiteralProto execution_platform=4:string"
    ),
    "HloModuleProtoWithConfig": "hlo_module=1:HloModuleProto config=2:HloModuleConfigProto",
    "HloModuleConfigProto": (
        "entry_computation_layout=1:ProgramShapeProto replica_count=4:int64 "
        "num_partitions=5:int64 use_spmd_partitioning=7:bool use_auto_spmd_partitioning=8:bool "
        "alias_passthrough_params=17:bool allow_spmd_sharding_propagation_to_output=27:bool* "
        "allow_spmd_sharding_propagation_to_parameters=33:bool*"
    ),
    "HloModuleProto": (
        "name=1:string entry_computation_name=2:string computations=3:HloComputationProto* "
        "host_program_shape=4:ProgramShapeProto id=5:int64 entry_computation_id=6:int64 "
        "schedule=7:HloScheduleProto input_output_alias=8:HloInputOutputAliasProto "
        "cross_program_prefetches=10:CrossProgramPrefetch* is_dynamic=11:bool "
        "spmd_output_sharding=12:OpSharding spmd_parameters_shardings=14:OpSharding* "
        "use_auto_spmd_partitioning=16:bool stack_frame_index=17:StackFrameIndexProto "
        "buffer_donor=18:HloBufferDonorProto frontend_attributes=19:FrontendAttributes "
        "original_value_recovery_table=20:OriginalValueRecoveryTableProto payloads=22:bytes* "
        "debug_attributes=24:bytes"
    ),
    "HloScheduleProto": "sequences=1:ScheduleEntry*",
    "ScheduleEntry": "key=1:int64 value=2:InstructionSequence",
    "InstructionSequence": "instruction_ids=1:int64*",
    "HloInputOutputAliasProto": "entries=1:AliasEntryProto*",
    "AliasEntryProto": (
        "output_shape_index=1:int64* parameter_number=2:int64 parameter_shape_index=3:int64* "
        "kind=4:int32"
    ),
    "HloBufferDonorProto": "entries=1:BufferDonorEntryProto*",
    "BufferDonorEntryProto": "parameter_number=1:int64 parameter_shape_index=2:int64*",
    "CrossProgramPrefetch": "parameter=1:int64 index=2:int64* offset=3:int64",
    "OriginalValueRecoveryTableProto": "entries=1:RecoveryEntry*",
    "RecoveryEntry": (
        "old_original_array=1:OriginalArrayProto new_original_array=2:OriginalArrayProto "
        "recovery_module=3:HloModuleProto"
    ),
    # -- computations and instructions ---------------------------------------------------------
    "HloComputationProto": (
        "name=1:string instructions=2:HloInstructionProto* program_shape=4:ProgramShapeProto "
        "id=5:int64 root_id=6:int64 is_fusion_computation=7:bool execution_thread=8:string"
    ),
    "HloInstructionProto": (
        "name=1:string opcode=2:string shape=3:ShapeProto metadata=7:OpMetadata "
        "literal=8:LiteralProto parameter_number=9:int64 fusion_kind=11:string "
        "tuple_index=13:int64 dimensions=14:int64* window=15:Window "
        "convolution_dimension_numbers=16:ConvolutionDimensionNumbers "
        "slice_dimensions=17:SliceDimensions* exponent_bits=18:int32 mantissa_bits=19:int32 "
        "dynamic_slice_sizes=20:int64* padding_config=21:PaddingConfig outfeed_config=22:bytes "
        "distribution=23:int32 epsilon=24:float feature_index=25:int64 channel_id=26:int64? "
        "infeed_config=27:bytes custom_call_target=28:string outfeed_shape=29:ShapeProto "
        "dot_dimension_numbers=30:DotDimensionNumbers fft_type=31:int32 fft_length=32:int64* "
        "gather_dimension_numbers=33:GatherDimensionNumbers gather_slice_sizes=34:int64* "
        "id=35:int64 operand_ids=36:int64* control_predecessor_ids=37:int64* "
        "called_computation_ids=38:int64* sharding=40:OpSharding backend_config=43:bytes "
        "all_reduce_id=45:int64 is_host_transfer=47:bool "
        "scatter_dimension_numbers=48:ScatterDimensionNumbers replica_groups=49:ReplicaGroup* "
        "feature_group_count=50:int64 precision_config=51:PrecisionConfig "
        "source_target_pairs=52:SourceTarget* domain_entry_sharding=54:OpSharding "
        "domain_exit_sharding=55:OpSharding constrain_layout=56:bool "
        "operand_shapes_with_layout=57:ShapeProto* batch_group_count=58:int64 "
        "triangular_solve_options=59:TriangularSolveOptions is_stable=60:bool? "
        "parameter_replication=61:ParameterReplication cholesky_options=62:CholeskyOptions "
        "comparison_direction=63:string custom_call_has_side_effect=65:bool delta=66:int64 "
        "indices_are_sorted=67:bool frontend_attributes=68:FrontendAttributes "
        "unique_indices=69:bool rng_algorithm=70:int32 use_global_device_ids=71:bool "
        "comparison_type=72:string output_operand_aliasing=74:OutputOperandAliasing* "
        "padding_type=75:int32 custom_call_schedule=76:int32 custom_call_api_version=77:int32 "
        "async_execution_thread=79:string cross_program_prefetch_index=80:int32? k=81:int64 "
        "statistics_viz=82:StatisticsViz largest=85:bool "
        "collective_device_list=87:CollectiveDeviceListProto@replica_group_list "
        "original_value=88:OriginalValueProto is_composite=89:bool "
        "ragged_dot_dimension_numbers=90:RaggedDotDimensionNumbers "
        "result_accuracy=91:ResultAccuracy "
        "iota_collective_device_list=92:IotaReplicaGroupListProto@replica_group_list "
        "mesh_axes_replica_group_list=93:MeshAxesReplicaGroupListProto@replica_group_list "
        "is_reverse=94:bool num_carries=95:int64 is_associative=96:int32 conv_kind=97:int32 "
        "sparsity_config=98:SparsityConfig backend_config_payload=99:Payload "
        "has_dynamic_root=100:bool"
    ),
    "SliceDimensions": "start=1:int64 limit=2:int64 stride=3:int64",
    "Payload": "value=1:bytes@source id=2:int64@source",
    # -- shapes and literals -------------------------------------------------------------------
    "ShapeProto": (
        "element_type=2:int32 dimensions=3:int64* tuple_shapes=4:ShapeProto* layout=5:LayoutProto "
        "is_dynamic_dimension=6:bool*"
    ),
    "LayoutProto": (
        "minor_to_major=1:int64* tiles=6:TileProto* element_size_in_bits=7:int64 "
        "memory_space=8:int64 dim_level_types=9:int32* physical_shape=10:ShapeProto "
        "index_primitive_type=11:int32 pointer_primitive_type=12:int32 dim_unique=13:bool* "
        "dim_ordered=14:bool* dynamic_shape_metadata_prefix_bytes=15:int64 "
        "tail_padding_alignment_in_elements=16:int64 split_configs=17:SplitConfigProto*"
    ),
    "TileProto": "dimensions=1:int64*",
    "SplitConfigProto": "dimension=1:int64 split_indices=2:int64*",
    "ProgramShapeProto": ("parameters=1:ShapeProto* result=2:ShapeProto parameter_names=3:string*"),
    "LiteralProto": (
        "shape=1:ShapeProto f32s=8:bytes* f64s=9:bytes* tuple_literals=10:LiteralProto* "
        f"c64s=12:bytes* c128s=18:bytes* {_INTEGER_LITERALS} {_SMALL_LITERALS} "
        "dynamic_sizes=34:int32* elided=536870100:bool"
    ),
    "ElementwiseLiteral": "f32s=8:float* f64s=9:double* c64s=12:float* c128s=18:double*",
    # -- attributes ----------------------------------------------------------------------------
    "Window": "dimensions=1:WindowDimension*",
    "WindowDimension": (
        "size=1:int64 stride=2:int64 padding_low=3:int64 padding_high=4:int64 "
        "window_dilation=5:int64 base_dilation=6:int64 window_reversal=7:bool"
    ),
    "PaddingConfig": "dimensions=1:PaddingConfigDimension*",
    "PaddingConfigDimension": (
        "edge_padding_low=1:int64 edge_padding_high=2:int64 interior_padding=3:int64"
    ),
    "ConvolutionDimensionNumbers": (
        "kernel_input_feature_dimension=3:int64 kernel_output_feature_dimension=4:int64 "
        "kernel_spatial_dimensions=6:int64* input_batch_dimension=7:int64 "
        "input_feature_dimension=8:int64 output_batch_dimension=9:int64 "
        "output_feature_dimension=10:int64 input_spatial_dimensions=11:int64* "
        "output_spatial_dimensions=12:int64*"
    ),
    "SparsityConfig": "lhs=1:TensorSparsityConfig rhs=2:TensorSparsityConfig",
    "TensorSparsityConfig": (
        "num_non_zero=1:int64 block_size=2:int64 dimension=3:int64 stride=4:int64"
    ),
    "DotDimensionNumbers": (
        "lhs_contracting_dimensions=1:int64* rhs_contracting_dimensions=2:int64* "
        "lhs_batch_dimensions=3:int64* rhs_batch_dimensions=4:int64*"
    ),
    "RaggedDotDimensionNumbers": (
        "dot_dimension_numbers=1:DotDimensionNumbers lhs_ragged_dimensions=2:int64* "
        "rhs_group_dimensions=3:int64*"
    ),
    "PrecisionConfig": "operand_precision=1:int32* algorithm=2:int32",
    "GatherDimensionNumbers": (
        "offset_dims=1:int64* collapsed_slice_dims=2:int64* start_index_map=3:int64* "
        "index_vector_dim=4:int64 operand_batching_dims=5:int64* "
        "start_indices_batching_dims=6:int64*"
    ),
    "ScatterDimensionNumbers": (
        "update_window_dims=1:int64* inserted_window_dims=2:int64* "
        "scatter_dims_to_operand_dims=3:int64* index_vector_dim=4:int64 "
        "input_batching_dims=5:int64* scatter_indices_batching_dims=6:int64*"
    ),
    "TriangularSolveOptions": (
        "left_side=1:bool lower=2:bool unit_diagonal=3:bool transpose_a=4:int32"
    ),
    "CholeskyOptions": "lower=1:bool",
    "ResultAccuracy": "mode=1:int32@specs tolerance=2:Tolerance@specs",
    "Tolerance": "atol=1:double rtol=2:double ulps=3:int64",
    "OutputOperandAliasing": (
        "output_shape_index=1:int64* operand_index=2:int64 operand_shape_index=3:int64*"
    ),
    "ParameterReplication": "replicated_at_leaf_buffers=1:bool*",
    "FrontendAttributes": "map=1:StringEntry*",
    "StringEntry": "key=1:string value=2:string",
    "StatisticsViz": "stat_index_to_visualize=1:int64 statistics=2:Statistic*",
    "Statistic": "stat_name=1:string stat_val=2:double",
    "OriginalValueProto": "elements=1:OriginalValueElementProto* is_synthetic_call=2:bool",
    "OriginalValueElementProto": "shape_index=1:int64* original_array=2:OriginalArrayProto",
    "OriginalArrayProto": "instruction_name=1:string shape_index=2:int64*",
    # -- devices -------------------------------------------------------------------------------
    "SourceTarget": "source=1:int64 target=2:int64",
    "ReplicaGroup": "replica_ids=1:int64*",
    "CollectiveDeviceListProto": "replica_groups=1:ReplicaGroup*",
    "IotaReplicaGroupListProto": (
        "num_replica_groups=1:int64 num_devices_per_group=2:int64 iota_reshape_dims=3:int64* "
        "iota_transpose_perm=4:int32*"
    ),
    "MeshAxesReplicaGroupListProto": "mesh=1:MeshProto axes=2:AxisRefProto*",
    "MeshProto": "axes=1:MeshAxis* device_ids=2:int64* iota_transform=3:IotaTransform",
    "MeshAxis": "name=1:string size=2:int64",
    "IotaTransform": "reshape_dims=1:int64* transpose_perm=2:int64*",
    "AxisRefProto": "mesh_axis_index=1:int64 sub_axis_info=2:SubAxis",
    "SubAxis": "pre_size=1:int64 size=2:int64",
    "OpSharding": (
        "type=1:int32 tile_assignment_dimensions=3:int64* tile_assignment_devices=4:int64* "
        "tuple_shardings=5:OpSharding* replicate_on_last_tile_dim=6:bool metadata=7:OpMetadata* "
        "last_tile_dims=8:int32* iota_reshape_dims=9:int64* iota_transpose_perm=10:int32* "
        "is_shard_group=11:bool shard_group_id=12:int64 shard_group_type=13:int32 "
        "named_sharding=14:NamedShardingProto"
    ),
    "NamedShardingProto": (
        "mesh=2:MeshProto dim_shardings=3:DimensionSharding* replicated_axes=4:AxisRefProto* "
        "unreduced_axes=5:AxisRefProto* metadata=6:OpMetadata* manual_axes=7:AxisRefProto* "
        "reduction_op=8:int32"
    ),
    "DimensionSharding": "axes=1:AxisRefProto* is_closed=2:bool",
    # -- sources -------------------------------------------------------------------------------
    "OpMetadata": (
        "op_type=1:string op_name=2:string source_file=3:string source_line=4:int32 "
        "profile_type=5:int32* size_of_generated_code_in_bytes=8:int64 "
        "size_of_memory_working_set_in_bytes=9:int64 deduplicated_name=12:string "
        "stack_frame_id=15:int32 scheduling_name=16:string source_end_line=17:int32 "
        "source_column=18:int32 source_end_column=19:int32 metadata_payload=20:Payload"
    ),
    "StackFrameIndexProto": (
        "file_names=1:string* function_names=2:string* file_locations=3:FileLocation* "
        "stack_frames=4:StackFrame*"
    ),
    "FileLocation": (
        "file_name_id=1:int32 function_name_id=2:int32 line=3:int32 column=4:int32 "
        "end_line=5:int32 end_column=6:int32"
    ),
    "StackFrame": "file_location_id=1:int32 parent_frame_id=2:int32",
    # -- buffer assignments --------------------------------------------------------------------
    "BufferAssignmentProto": (
        "logical_buffers=1:LogicalBufferProto* buffer_aliases=2:BufferAlias* "
        "buffer_allocations=3:BufferAllocationProto* heap_simulator_traces=4:HeapSimulatorTrace* "
        "peak_buffers=5:PeakBuffers*"
    ),
    "LogicalBufferProto": (
        "id=1:int64 size=2:int64 defined_at=3:LogicalBufferLocation color=4:int64 "
        "call_site=536870102:int64? live_first=536870103:int64? live_last=536870104:int64?"
    ),
    "LogicalBufferLocation": (
        "instruction_name=2:string shape_index=3:int64* instruction_id=4:int64"
    ),
    "BufferAlias": (
        "source_buffer_id=1:int64 location=2:LogicalBufferLocation buffer_id=536870105:int64?"
    ),
    "BufferAllocationProto": (
        "index=1:int64 size=2:int64 is_thread_local=3:bool "
        "is_entry_computation_parameter=5:bool parameter_number=6:int64 maybe_live_out=7:bool "
        "color=8:int64 assigned=9:AssignedBuffer* parameter_shape_index=10:int64* is_tuple=11:bool "
        "is_constant=12:bool is_parameter_aliased_with_output=13:bool kept_bytes=536870101:int64?"
    ),
    "AssignedBuffer": "logical_buffer_id=1:int64 offset=2:int64 size=3:int64 element_type=4:int32",
    "HeapSimulatorTrace": (
        "events=1:HeapSimulatorEvent* whole_module_simulation=2:bool "
        "buffer_allocation_index=3:int64"
    ),
    "HeapSimulatorEvent": (
        "kind=1:int32 buffer_id=2:int64 computation_name=3:string instruction_name=4:string "
        "share_with_canonical_id=5:int64"
    ),
    "PeakBuffers": "index=1:int64 logical_buffer_ids=2:int64*",
}
"""The fields of every message, by name."""
