"""HLO as protobuf, wire compatible with XLA in both directions."""

from lowtide.frontend.hlo_proto.reader import read_hlo_proto, read_snapshot
from lowtide.frontend.hlo_proto.writer import (
    write_hlo_module_proto,
    write_hlo_module_with_config,
    write_hlo_proto,
)

__all__ = [
    "read_hlo_proto",
    "read_snapshot",
    "write_hlo_module_proto",
    "write_hlo_module_with_config",
    "write_hlo_proto",
]
