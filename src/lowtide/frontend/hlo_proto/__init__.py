"""HLO as protobuf, wire compatible with XLA in both directions.

Plans in protobuf are read and written by few: their functions are loaded when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from lowtide.frontend.hlo_proto.reader import read_hlo_proto, read_snapshot
from lowtide.frontend.hlo_proto.writer import (
    write_hlo_module_proto,
    write_hlo_module_with_config,
    write_hlo_proto,
    write_hlo_proto_with_ids,
    write_sharding_proto,
)

if TYPE_CHECKING:
    from lowtide.frontend.hlo_proto.buffer_assignment import (
        read_buffer_assignment as read_buffer_assignment,
    )
    from lowtide.frontend.hlo_proto.buffer_assignment_writer import (
        write_buffer_assignment as write_buffer_assignment,
    )
    from lowtide.frontend.hlo_proto.buffer_assignment_writer import (
        write_hlo_proto_plan as write_hlo_proto_plan,
    )
    from lowtide.frontend.hlo_proto.hlo_proto_plan import holds_plan as holds_plan
    from lowtide.frontend.hlo_proto.hlo_proto_plan import (
        read_hlo_proto_plan as read_hlo_proto_plan,
    )
    from lowtide.frontend.hlo_proto.hlo_proto_plan import (
        read_plan_of_hlo_proto as read_plan_of_hlo_proto,
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
    "write_sharding_proto",
]

_HOME: Final = {
    "holds_plan": "hlo_proto_plan",
    "read_buffer_assignment": "buffer_assignment",
    "read_hlo_proto_plan": "hlo_proto_plan",
    "read_plan_of_hlo_proto": "hlo_proto_plan",
    "write_buffer_assignment": "buffer_assignment_writer",
    "write_hlo_proto_plan": "buffer_assignment_writer",
}
"""The module that defines each name that is loaded when first used."""


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
