"""Annotations in protobuf: sharding, frontend attributes, backend_config and the like."""

from __future__ import annotations

from typing import Any

from lowtide.frontend.hlo_proto import enums
from lowtide.frontend.hlo_proto.fields import FieldError, lookup, natural
from lowtide.frontend.hlo_proto.origins import origin_text, write_origin
from lowtide.frontend.hlo_proto.shardings import ShardingReader, write_sharding
from lowtide.frontend.hlo_proto.sources import PayloadReader, PayloadWriter, write_scalar
from lowtide.ir.annotations import NO_ANNOTATIONS, Annotations, ResultAccuracy, Statistics

Pairs = tuple[tuple[str, str], ...]


def read_annotations(proto: Any, shardings: ShardingReader) -> Annotations:
    """Return the generic attributes of an instruction; raises FieldError."""
    sharding = None
    if proto.HasField("sharding"):
        sharding = shardings.read_field(proto, "sharding")
    origin = ""
    if proto.HasField("original_value"):
        try:
            origin = origin_text(proto.original_value)
        except FieldError as error:
            raise error.under("original_value") from None
    annotations = Annotations(
        sharding,
        read_pairs(proto.frontend_attributes),
        _read_statistics(proto.statistics_viz),
        _read_accuracy(proto),
        tuple(proto.parameter_replication.replicated_at_leaf_buffers),
        origin,
        _read_backend_config(proto, shardings.payloads),
    )
    return NO_ANNOTATIONS if annotations == NO_ANNOTATIONS else annotations


def read_pairs(proto: Any) -> Pairs:
    """Return frontend attributes, sorted by key; the last of several entries of a key counts."""
    entries = proto.map
    if not entries:
        return ()
    return tuple(sorted({entry.key: entry.value for entry in entries}.items()))


def _read_statistics(proto: Any) -> Statistics | None:
    if not proto.statistics:
        return None
    index = proto.stat_index_to_visualize
    return Statistics(index, tuple([(x.stat_name, x.stat_val) for x in proto.statistics]))


def _read_accuracy(proto: Any) -> ResultAccuracy | None:
    if not proto.HasField("result_accuracy"):
        return None
    accuracy = proto.result_accuracy
    if accuracy.WhichOneof("specs") == "tolerance":
        tolerance = accuracy.tolerance
        ulps = natural(tolerance.ulps, "result_accuracy.tolerance.ulps")
        return ResultAccuracy("", tolerance.atol, tolerance.rtol, ulps)
    return ResultAccuracy(lookup(enums.ACCURACY_MODES, accuracy.mode, "result_accuracy.mode"))


def _read_backend_config(proto: Any, payloads: PayloadReader) -> str:
    data = proto.backend_config
    if proto.HasField("backend_config_payload"):
        data = payloads.read(proto.backend_config_payload, "backend_config_payload")
    text = data.decode("utf-8", "surrogateescape")
    assert isinstance(text, str)
    return text


# -- writing -----------------------------------------------------------------------------------


def write_annotations(annotations: Annotations, proto: Any, payloads: PayloadWriter) -> None:
    """Write the generic attributes of an instruction; raises FieldError."""
    if annotations.sharding is not None:
        write_sharding(annotations.sharding, proto.sharding, payloads)
    write_pairs(annotations.frontend_attributes, proto, "frontend_attributes")
    if annotations.statistics is not None:
        statistics = annotations.statistics
        proto.statistics_viz.stat_index_to_visualize = statistics.visualizing_index
        for name, value in statistics.values:
            proto.statistics_viz.statistics.add(stat_name=name, stat_val=value)
    if annotations.result_accuracy is not None:
        _write_accuracy(annotations.result_accuracy, proto.result_accuracy)
    flags = proto.parameter_replication.replicated_at_leaf_buffers
    flags.extend(annotations.parameter_replication)
    if annotations.origin:
        try:
            write_origin(annotations.origin, proto.original_value)
        except FieldError as error:
            raise error.under("original_value") from None
    proto.backend_config = annotations.backend_config.encode("utf-8", "surrogateescape")


def write_pairs(pairs: Pairs, proto: Any, field: str) -> None:
    """Write frontend attributes into a field of a message."""
    for key, value in pairs:
        entry = getattr(proto, field).map.add()
        try:
            write_scalar(entry, "key", key)
            write_scalar(entry, "value", value)
        except FieldError as error:
            raise error.under(field) from None


def _write_accuracy(accuracy: ResultAccuracy, proto: Any) -> None:
    if accuracy.mode:
        proto.mode = next(n for n, mode in enums.ACCURACY_MODES.items() if mode == accuracy.mode)
        return
    proto.tolerance.SetInParent()
    proto.tolerance.atol = accuracy.atol
    proto.tolerance.rtol = accuracy.rtol
    proto.tolerance.ulps = accuracy.ulps
