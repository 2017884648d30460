"""HLO as protobuf, wire compatible with XLA in both directions.

Few processes both read and write, and few do so with plans: functions are loaded when first used.
"""

from typing import TYPE_CHECKING

from lowtide.records.late import late_names

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
    "write_sharding_proto",
]


if TYPE_CHECKING:
    from lowtide.frontend.hlo_proto.buffer_assignment import read_buffer_assignment
    from lowtide.frontend.hlo_proto.buffer_assignment_writer import (
        write_buffer_assignment,
        write_hlo_proto_plan,
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
else:
    __getattr__ = late_names(
        __name__,
        buffer_assignment="read_buffer_assignment",
        buffer_assignment_writer="write_buffer_assignment write_hlo_proto_plan",
        hlo_proto_plan="holds_plan read_hlo_proto_plan read_plan_of_hlo_proto",
        reader="read_hlo_proto read_snapshot",
        writer="write_hlo_module_proto write_hlo_module_with_config write_hlo_proto "
        "write_hlo_proto_with_ids write_sharding_proto",
    )
