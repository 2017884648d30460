"""The text of each attribute record, as XLA prints it behind the operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import lowtide.ir.attributes as ir
from lowtide.ir.annotations import Annotations, ResultAccuracy
from lowtide.ir.literal import Literal
from lowtide.ir.opcode import Opcode
from lowtide.ir.replica_groups import ReplicaGroups
from lowtide.ir.strings import dictionary_end, quote

if TYPE_CHECKING:
    from lowtide.ir.instruction import Instruction

Text = list[str]


def braces(values: Sequence[Any]) -> str:
    """Return `{1,2}`."""
    return "{" + ",".join([str(x) for x in values]) + "}"


def attribute_text(instruction: Instruction) -> Text:
    """Return the attributes of an instruction, called computations and annotations left out."""
    return _TEXTS[type(instruction.attributes)](instruction.attributes, instruction)


def _nothing(record: Any, instruction: Instruction) -> Text:
    return []


def _dimensions(record: ir.Dimensions, instruction: Instruction) -> Text:
    return [f"dimensions={braces(record.dimensions)}"]


def _reshape(record: ir.Reshape, instruction: Instruction) -> Text:
    if record.inferred_dimension == -1:
        return []
    return [f"inferred_dimension={record.inferred_dimension}"]


def _slice(record: ir.Slice, instruction: Instruction) -> Text:
    parts = []
    for start, limit, stride in zip(record.starts, record.limits, record.strides, strict=True):
        suffix = f":{stride}" if any(s != 1 for s in record.strides) else ""
        parts.append(f"[{start}:{limit}{suffix}]")
    return [f"slice={{{', '.join(parts)}}}"]


def _pad(record: ir.Pad, instruction: Instruction) -> Text:
    return [f"padding={padding_text(record.dimensions)}"]


def padding_text(dimensions: Sequence[ir.PaddingDimension]) -> str:
    """Return `lo_hi_interiorx...`; interior padding is shown for all dimensions or for none."""
    interior = any(d.interior for d in dimensions)
    parts = [f"{d.low}_{d.high}{f'_{d.interior}' if interior else ''}" for d in dimensions]
    return "x".join(parts)


def _gather(record: ir.Gather, instruction: Instruction) -> Text:
    texts = [
        f"offset_dims={braces(record.offset_dims)}",
        f"collapsed_slice_dims={braces(record.collapsed_slice_dims)}",
        f"start_index_map={braces(record.start_index_map)}",
    ]
    if record.operand_batching_dims:
        texts.append(f"operand_batching_dims={braces(record.operand_batching_dims)}")
    if record.start_indices_batching_dims:
        texts.append(f"start_indices_batching_dims={braces(record.start_indices_batching_dims)}")
    texts.append(f"index_vector_dim={record.index_vector_dim}")
    texts.append(f"slice_sizes={braces(record.slice_sizes)}")
    if record.indices_are_sorted:
        texts.append("indices_are_sorted=true")
    return texts


def _scatter(record: ir.Scatter, instruction: Instruction) -> Text:
    texts = [
        f"update_window_dims={braces(record.update_window_dims)}",
        f"inserted_window_dims={braces(record.inserted_window_dims)}",
        f"scatter_dims_to_operand_dims={braces(record.scatter_dims_to_operand_dims)}",
    ]
    if record.input_batching_dims:
        texts.append(f"input_batching_dims={braces(record.input_batching_dims)}")
    if record.scatter_indices_batching_dims:
        dims = braces(record.scatter_indices_batching_dims)
        texts.append(f"scatter_indices_batching_dims={dims}")
    texts.append(f"index_vector_dim={record.index_vector_dim}")
    if record.indices_are_sorted:
        texts.append("indices_are_sorted=true")
    if record.unique_indices:
        texts.append("unique_indices=true")
    return texts


def window_text(window: ir.Window) -> str:
    """Return the window in braces; parts with only default values are left out."""
    dimensions = window.dimensions
    if not dimensions:
        return ""
    parts = [f"size={'x'.join([str(d.size) for d in dimensions])}"]
    columns: list[tuple[str, list[Any], Any]] = [
        ("stride", [d.stride for d in dimensions], 1),
        ("pad", [f"{d.padding_low}_{d.padding_high}" for d in dimensions], "0_0"),
        ("lhs_dilate", [d.base_dilation for d in dimensions], 1),
        ("rhs_dilate", [d.window_dilation for d in dimensions], 1),
        ("rhs_reversal", [int(d.reversal) for d in dimensions], 0),
    ]
    for key, values, default in columns:
        if any(value != default for value in values):
            parts.append(f"{key}={'x'.join(map(str, values))}")
    return "{" + " ".join(parts) + "}"


def _reduce_window(record: ir.ReduceWindow, instruction: Instruction) -> Text:
    text = window_text(record.window)
    return [f"window={text}"] if text else []


def precision_text(precision: ir.PrecisionConfig) -> Text:
    """Return the attributes for a precision that is not the default."""
    texts = []
    if precision.operand_precision:
        texts.append(f"operand_precision={braces([p.value for p in precision.operand_precision])}")
    if precision.algorithm is not ir.DotAlgorithm.UNSET:
        texts.append(f"algorithm={precision.algorithm.value}")
    return texts


def _dot_dimensions(dimensions: ir.DotDimensions) -> Text:
    texts = []
    if dimensions.lhs_batch:
        texts.append(f"lhs_batch_dims={braces(dimensions.lhs_batch)}")
    texts.append(f"lhs_contracting_dims={braces(dimensions.lhs_contracting)}")
    if dimensions.rhs_batch:
        texts.append(f"rhs_batch_dims={braces(dimensions.rhs_batch)}")
    texts.append(f"rhs_contracting_dims={braces(dimensions.rhs_contracting)}")
    return texts


def _dot(record: ir.Dot, instruction: Instruction) -> Text:
    return _dot_dimensions(record.dimensions) + precision_text(record.precision)


def _ragged_dot(record: ir.RaggedDot, instruction: Instruction) -> Text:
    texts = _dot_dimensions(record.dimensions)
    texts.append(f"lhs_ragged_dims={braces(record.lhs_ragged)}")
    if record.rhs_group:
        texts.append(f"rhs_group_dims={braces(record.rhs_group)}")
    return texts + precision_text(record.precision)


def dim_labels_text(d: ir.ConvolutionDimensions) -> str:
    """Return `b01f_01io->b01f`."""
    lhs = _labels({d.input_batch: "b", d.input_feature: "f"}, d.input_spatial)
    rhs = _labels({d.kernel_input_feature: "i", d.kernel_output_feature: "o"}, d.kernel_spatial)
    out = _labels({d.output_batch: "b", d.output_feature: "f"}, d.output_spatial)
    return f"{lhs}_{rhs}->{out}"


def _labels(named: dict[int, str], spatial: Sequence[int]) -> str:
    named |= {position: str(i) for i, position in enumerate(spatial)}
    last = max([*named, len(spatial) + 1])
    return "".join([named.get(position, "?") for position in range(last + 1)])


def _convolution(record: ir.Convolution, instruction: Instruction) -> Text:
    texts = []
    window = window_text(record.window)
    if window:
        texts.append(f"window={window}")
    texts.append(f"dim_labels={dim_labels_text(record.dimensions)}")
    texts += _group_counts(record)
    texts += precision_text(record.precision)
    if record.kind != "unset":
        texts.append(f"convolution_kind={record.kind}")
    if record.sparsity_config:
        texts.append(f"sparsity_config={record.sparsity_config}")
    return texts


def _group_counts(record: ir.Convolution | ir.CustomCall) -> Text:
    texts = []
    if record.feature_group_count != 1:
        texts.append(f"feature_group_count={record.feature_group_count}")
    if record.batch_group_count != 1:
        texts.append(f"batch_group_count={record.batch_group_count}")
    return texts


def _scan(record: ir.Scan, instruction: Instruction) -> Text:
    texts = [f"dimensions={{{record.dimension}}}", f"num_carries={record.num_carries}"]
    if record.is_reverse:
        texts.append("is_reverse=true")
    if record.is_associative is not None:
        texts.append(f"is_associative={_bool(record.is_associative)}")
    return texts


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _sort(record: ir.Sort, instruction: Instruction) -> Text:
    texts = [f"dimensions={{{record.dimension}}}"]
    if record.is_stable:
        texts.append("is_stable=true")
    return texts


def _topk(record: ir.TopK, instruction: Instruction) -> Text:
    return [f"k={record.k}", f"largest={_bool(record.largest)}"]


def _compare(record: ir.Compare, instruction: Instruction) -> Text:
    texts = [f"direction={record.direction}"]
    element_type = instruction.operands[0].shape.element_type
    floating = element_type.is_floating or element_type.is_complex
    default = "FLOAT" if floating else "SIGNED" if element_type.is_signed else "UNSIGNED"
    if record.type != default:
        texts.append(f"type={record.type}")
    return texts


def _fft(record: ir.Fft, instruction: Instruction) -> Text:
    return [f"fft_type={record.kind}", f"fft_length={braces(record.length)}"]


def _cholesky(record: ir.Cholesky, instruction: Instruction) -> Text:
    return ["lower=true"] if record.lower else []


def _triangular_solve(record: ir.TriangularSolve, instruction: Instruction) -> Text:
    flags = ("left_side", "lower", "unit_diagonal")
    texts = [f"{name}=true" for name in flags if getattr(record, name)]
    texts.append(f"transpose_a={record.transpose_a}")
    return texts


def _batch_norm(record: ir.BatchNorm, instruction: Instruction) -> Text:
    return [f"epsilon={record.epsilon:g}", f"feature_index={record.feature_index}"]


def _conditional(record: ir.Conditional, instruction: Instruction) -> Text:
    return []


def _call(record: ir.Call, instruction: Instruction) -> Text:
    return []


def aliasing_text(entries: Sequence[ir.Aliasing]) -> Text:
    """Return the attribute for outputs that overwrite operands, nothing where there are none."""
    if not entries:
        return []
    parts = [f"{_index(e.output_index)}: ({e.operand}, {_index(e.operand_index)})" for e in entries]
    return [f"output_to_operand_aliasing={{{', '.join(parts)}}}"]


def _index(index: Sequence[int]) -> str:
    return "{" + ",".join(map(str, index)) + "}"


def _fusion(record: ir.Fusion, instruction: Instruction) -> Text:
    return [f"kind={record.kind}", *aliasing_text(record.output_to_operand_aliasing)]


def _custom_call(record: ir.CustomCall, instruction: Instruction) -> Text:
    texts = []
    if record.window is not None and record.window.dimensions:
        texts.append(f"window={window_text(record.window)}")
    if record.dimensions is not None:
        texts.append(f"dim_labels={dim_labels_text(record.dimensions)}")
    texts += _group_counts(record)
    texts += precision_text(record.precision)
    if record.padding_type:
        texts.append(f"padding_type={record.padding_type}")
    texts.append(f"custom_call_target={quote(record.target)}")
    if record.operand_layouts is not None:
        shapes = ", ".join([str(shape) for shape in record.operand_layouts])
        texts.append(f"operand_layout_constraints={{{shapes}}}")
    if record.has_side_effect:
        texts.append("custom_call_has_side_effect=true")
    if record.literal is not None:
        texts.append(f"literal={shaped_literal_text(record.literal)}")
    texts += aliasing_text(record.output_to_operand_aliasing)
    if record.schedule != "SCHEDULE_NONE":
        texts.append(f"schedule={record.schedule}")
    if record.api_version != "API_VERSION_ORIGINAL":
        texts.append(f"api_version={record.api_version}")
    return texts


def shaped_literal_text(literal: Literal) -> str:
    """Return a literal with its shape; in a tuple each element has its own."""
    if literal.shape.is_tuple:
        parts = [shaped_literal_text(element) for element in literal.elements]
        return f"( {', '.join(parts)} )"
    return f"{literal.shape} {literal.text(large=True)}"


def _async(record: ir.Async, instruction: Instruction) -> Text:
    texts = []
    if instruction.opcode is Opcode.ASYNC_START and record.execution_thread != ir.MAIN_THREAD:
        texts.append(f"async_execution_thread={quote(record.execution_thread)}")
    return texts + aliasing_text(record.output_to_operand_aliasing)


def _copy_start(record: ir.CopyStart, instruction: Instruction) -> Text:
    if record.cross_program_prefetch_index is None:
        return []
    return [f"cross_program_prefetch_index={record.cross_program_prefetch_index}"]


def _channel_text(channel_id: int | None) -> Text:
    return [f"channel_id={channel_id}"] if channel_id is not None else []


def _groups_text(groups: ReplicaGroups) -> Text:
    return [f"replica_groups={groups}"]


def _collective(record: ir.Collective, instruction: Instruction) -> Text:
    texts = _channel_text(record.channel_id) + _groups_text(record.replica_groups)
    if record.constrain_layout:
        texts.append("constrain_layout=true")
    flags = ["use_global_device_ids=true"] if record.use_global_device_ids else []
    dimension = [] if record.dimension is None else [f"dimensions={{{record.dimension}}}"]
    scatters = instruction.opcode is Opcode.REDUCE_SCATTER
    texts += flags + dimension if scatters else dimension + flags
    if record.has_dynamic_root:
        texts.append("has_dynamic_root=true")
    return texts


def _permute(record: ir.CollectivePermute, instruction: Instruction) -> Text:
    pairs = ",".join([f"{{{s},{t}}}" for s, t in record.source_target_pairs])
    texts = [*_channel_text(record.channel_id), f"source_target_pairs={{{pairs}}}"]
    if record.slice_sizes:
        texts.append(f"slice_sizes={braces([braces(sizes) for sizes in record.slice_sizes])}")
    return texts


def _channel(record: ir.Channel, instruction: Instruction) -> Text:
    texts = _channel_text(record.channel_id)
    if record.is_host_transfer:
        texts.append("is_host_transfer=true")
    return texts


def _infeed(record: ir.Infeed, instruction: Instruction) -> Text:
    return [f"infeed_config={quote(record.config.decode('latin-1'))}"] if record.config else []


def _outfeed(record: ir.Outfeed, instruction: Instruction) -> Text:
    texts = [f"outfeed_shape={record.shape}"]
    if record.config:
        texts.append(f"outfeed_config={quote(record.config.decode('latin-1'))}")
    return texts


def _domain(record: ir.Domain, instruction: Instruction) -> Text:
    return [f'domain={{kind="{record.kind}", entry={record.entry}, exit={record.exit}}}']


_TEXTS: Final[dict[type[ir.Attributes], Callable[[Any, Instruction], Text]]] = {
    ir.Attributes: _nothing,
    ir.Parameter: _nothing,
    ir.Constant: _nothing,
    ir.Iota: lambda r, i: [f"iota_dimension={r.dimension}"],
    ir.Dimensions: _dimensions,
    ir.Reshape: _reshape,
    ir.Slice: _slice,
    ir.DynamicSlice: lambda r, i: [f"dynamic_slice_sizes={braces(r.sizes)}"],
    ir.Pad: _pad,
    ir.Gather: _gather,
    ir.Scatter: _scatter,
    ir.ReduceWindow: _reduce_window,
    ir.Dot: _dot,
    ir.RaggedDot: _ragged_dot,
    ir.Convolution: _convolution,
    ir.Scan: _scan,
    ir.Sort: _sort,
    ir.TopK: _topk,
    ir.Compare: _compare,
    ir.ReducePrecision: lambda r, i: [
        f"exponent_bits={r.exponent_bits}",
        f"mantissa_bits={r.mantissa_bits}",
    ],
    ir.Fft: _fft,
    ir.Cholesky: _cholesky,
    ir.TriangularSolve: _triangular_solve,
    ir.BatchNorm: _batch_norm,
    ir.Rng: lambda r, i: [f"distribution={r.distribution}"],
    ir.RngBitGenerator: lambda r, i: [f"algorithm={r.algorithm}"],
    ir.RngGetAndUpdateState: lambda r, i: [f"delta={r.delta}"],
    ir.GetTupleElement: lambda r, i: [f"index={r.index}"],
    ir.Call: _call,
    ir.Conditional: _conditional,
    ir.Fusion: _fusion,
    ir.CustomCall: _custom_call,
    ir.Async: _async,
    ir.CopyStart: _copy_start,
    ir.Collective: _collective,
    ir.CollectivePermute: _permute,
    ir.Channel: _channel,
    ir.Infeed: _infeed,
    ir.Outfeed: _outfeed,
    ir.Domain: _domain,
}


# -- annotations -------------------------------------------------------------------------------


def frontend_attributes_text(attributes: Sequence[tuple[str, str]]) -> str:
    """Return `{key="value",other={"json":1}}`."""
    parts = [f"{key}={json_or_string(text)}" for key, text in attributes]
    return "{" + ",".join(parts) + "}"


def json_or_string(text: str) -> str:
    """Return a dictionary in braces as it is, any other text in quotes."""
    is_dictionary = text.startswith("{") and dictionary_end(text) == len(text)
    return text if is_dictionary else quote(text)


def accuracy_text(accuracy: ResultAccuracy) -> str:
    """Return `{mode=highest}` or `{tolerance={...}}`."""
    if accuracy.mode:
        return f"{{mode={accuracy.mode}}}"
    numbers = f"atol={accuracy.atol:g},rtol={accuracy.rtol:g},ulps={accuracy.ulps}"
    return f"{{tolerance={{{numbers}}}}}"


def annotation_text(annotations: Annotations) -> tuple[Text, Text]:
    """Return what stands before and what stands behind the control predecessors."""
    before, behind = [], []
    if annotations.parameter_replication:
        flags = braces([_bool(x) for x in annotations.parameter_replication])
        before.append(f"parameter_replication={flags}")
    if annotations.sharding is not None:
        before.append(f"sharding={annotations.sharding}")
    if annotations.frontend_attributes:
        before.append(
            f"frontend_attributes={frontend_attributes_text(annotations.frontend_attributes)}"
        )
    if annotations.statistics is not None:
        values = "".join([f",{key}={x:g}" for key, x in annotations.statistics.values])
        index = annotations.statistics.visualizing_index
        behind.append(f"statistics={{visualizing_index={index}{values}}}")
    if annotations.result_accuracy is not None:
        behind.append(f"result_accuracy={accuracy_text(annotations.result_accuracy)}")
    if annotations.origin:
        behind.append(f"origin={{{annotations.origin}}}")
    return before, behind


def backend_config_text(config: str) -> str:
    """Return the value of backend_config: raw JSON, or a quoted string."""
    return json_or_string(config)
