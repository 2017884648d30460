"""Graph memory planning as in NNVM: storage ids, assignments to variables, real memory."""

from lowtide.planning.nnvm.assignment import (
    COPY,
    IN_PLACE,
    NO_ASSIGN,
    Hazard,
    assign_flags,
    find_hazards,
    original_assign_flags,
)
from lowtide.planning.nnvm.colouring import colour_nodes
from lowtide.planning.nnvm.decoration import DecoratedPlan, decorate
from lowtide.planning.nnvm.environment import NnvmOptions as PlanOptions
from lowtide.planning.nnvm.environment import options_from
from lowtide.planning.nnvm.graph import (
    DYNAMIC,
    EXTERNAL,
    NEVER_READ,
    NO_STORAGE,
    OWN_PLACE,
    UNKNOWN_SIZE,
    Entry,
    NnvmPlan,
)
from lowtide.planning.nnvm.graph import NnvmGraph as Graph
from lowtide.planning.nnvm.graph import NnvmNode as Node
from lowtide.planning.nnvm.graph_reader import read_graph
from lowtide.planning.nnvm.memory_plan import Variant, plan
from lowtide.planning.nnvm.ops import OPS, Pattern
from lowtide.planning.nnvm.ops import NnvmOp as Op
from lowtide.planning.nnvm.storage_pool import StoragePool

__all__ = [
    "COPY",
    "DYNAMIC",
    "EXTERNAL",
    "IN_PLACE",
    "NEVER_READ",
    "NO_ASSIGN",
    "NO_STORAGE",
    "OPS",
    "OWN_PLACE",
    "UNKNOWN_SIZE",
    "DecoratedPlan",
    "Entry",
    "Graph",
    "Hazard",
    "NnvmPlan",
    "Node",
    "Op",
    "Pattern",
    "PlanOptions",
    "StoragePool",
    "Variant",
    "assign_flags",
    "colour_nodes",
    "decorate",
    "find_hazards",
    "options_from",
    "original_assign_flags",
    "plan",
    "read_graph",
]
