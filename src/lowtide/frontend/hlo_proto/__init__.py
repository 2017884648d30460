"""HLO as protobuf, wire compatible with XLA in both directions."""

from lowtide.frontend.hlo_proto.buffer_assignment import read_buffer_assignment
from lowtide.frontend.hlo_proto.buffer_assignment_writer import (
    write_buffer_assignment,
    write_hlo_proto_plan,
    write_memory_usage_report,
)
from lowtide.frontend.hlo_proto.hlo_proto_plan import (
    holds_plan,
    read_hlo_proto_plan,
    read_plan_of_hlo_proto,
)
from lowtide.frontend.hlo_proto.reader import read_hlo_proto, read_snapshot
from lowtide.frontend.hlo_proto.writer import (
    write_hlo_module_proto,
    write_hlo_module_with_config,
    write_hlo_proto,
    write_hlo_proto_with_ids,
    write_sharding_proto,
)

__all__ = [
    "holds_plan",
    "read_buffer_assignment",
    "read_hlo_proto",
    "read_hlo_proto_plan",
    "read_plan_of_hlo_proto",
    "read_snapshot",
    "write_buffer_assignment",
    "write_hlo_module_proto",
    "write_hlo_module_with_config",
    "write_hlo_proto",
    "write_hlo_proto_plan",
    "write_hlo_proto_with_ids",
    "write_memory_usage_report",
    "write_sharding_proto",
]
