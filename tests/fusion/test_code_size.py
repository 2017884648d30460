"""Slices of slices fuse as long as that is little code, however few instructions they are."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.random_modules.module import random_module

from lowtide.cost.kernels import compute_seconds
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.fusion.cluster_graph import ClusterGraph
from lowtide.fusion.code_size import ValueNeeds, most_pieces, needs
from lowtide.fusion.legality import seed
from lowtide.fusion.priority_fusion import fuse_by_priority
from lowtide.fusion.priority_queue import fused_clusters
from lowtide.fusion.target_record import CPU_TARGET
from lowtide.ir import Computation, Instruction, Module, Opcode
from lowtide.ir.clone import clone_module
from lowtide.ir.traversal import running_computations
from lowtide.testing.check_pass import assert_same_values


def halving(levels: int) -> Module:
    """Neighbours are added up, level by level: a result is the sum of 2 ** levels elements."""
    size = 2**levels * 3
    lines = [f"x0 = f32[{size}] parameter(0)"]
    for i in range(levels):
        whole, half = size >> i, size >> (i + 1)
        for name, start in (("a", 0), ("b", 1)):
            lines.append(f"{name}{i} = f32[{half}] slice(x{i}), slice={{[{start}:{whole}:2]}}")
        lines.append(f"x{i + 1} = f32[{half}] add(a{i}, b{i})")
    lines[-1] = f"ROOT {lines[-1]}"
    return parse_hlo("HloModule m\nENTRY main {\n  " + "\n  ".join(lines) + "\n}")


def paths(root: Instruction, value: Instruction) -> int:
    """In how many ways a value is reached from a root; all of `halving` are different indices."""
    if root is value:
        return 1
    return sum([paths(x, value) for x in root.operands])


def bodies(module: Module) -> list[Computation]:
    fusions = [x for x in module.entry.instructions.values() if x.opcode is Opcode.FUSION]
    return [x.called_computations[0] for x in fusions]


@pytest.mark.parametrize("levels", [1, 3, 4, 5, 11])
def test_pieces_are_bounded(levels: int) -> None:
    module = halving(levels)
    original = clone_module(module)
    fuse_by_priority(module)
    assert_same_values(original, module, seeds=1)
    counts = [max(paths(body.root, x) for x in body.parameters) for body in bodies(module)]
    assert counts
    assert max(counts) <= CPU_TARGET.most_pieces
    assert len(counts) <= max(1, levels // 2)


def test_one_index_is_one_piece() -> None:
    """A value that elementwise operations share is computed once, however many ways lead to it."""
    levels = 12
    lines = ["x = f32[64,8] parameter(0)", "y0 = f32[62,8] slice(x), slice={[1:63], [0:8]}"]
    for i in range(levels):
        lines.append(f"w{i} = f32[62,8] sine(y{i})")
        lines.append(f"y{i + 1} = f32[62,8] add(w{i}, y{i})")
    lines[-1] = f"ROOT {lines[-1]}"
    module = parse_hlo("HloModule m\nENTRY main {\n  " + "\n  ".join(lines) + "\n}")
    (x,) = module.entry.parameters
    assert paths(module.entry.root, x) == 2**levels
    members = dict.fromkeys(module.entry.instructions.values())
    assert needs(members, module.entry.root)[x] == ValueNeeds(1, 1.0)
    fuse_by_priority(module)
    assert len(bodies(module)) == 1


def test_slices_are_pieces() -> None:
    entry = halving(3).entry
    members = dict.fromkeys(entry.instructions.values())
    counts = {x: paths(entry.root, x) for x in members}
    assert needs(members, entry.root) == {x: ValueNeeds(n, n) for x, n in counts.items()}


def test_of_operands_of_a_concatenate_one_is_computed_for_an_element() -> None:
    module = parse_hlo(
        """HloModule m
        ENTRY main {
          x = f32[12] parameter(0)
          y = f32[12] sine(x)
          low = f32[3] slice(y), slice={[0:3]}
          high = f32[9] slice(y), slice={[3:12]}
          rolled = f32[12] concatenate(high, low), dimensions={0}
          ROOT sum = f32[12] add(y, rolled)
        }"""
    )
    found = needs(dict.fromkeys(module.entry.instructions.values()), module.entry.root)
    (y,) = [x for x in module.entry.instructions.values() if x.opcode is Opcode.SINE]
    assert found[y] == ValueNeeds(3, 2.0)


def chain(levels: int) -> Module:
    """Each value is the last one beside itself at other indices, which are looked up."""
    lines = ["x0 = f32[4096] parameter(0)", "at = s32[4096,1] parameter(1)"]
    for i in range(levels):
        lines.append(
            f"g{i} = f32[4096] gather(x{i}, at), offset_dims={{}}, collapsed_slice_dims={{0}}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1}"
        )
        lines.append(f"x{i + 1} = f32[4096] add(x{i}, g{i})")
    lines[-1] = f"ROOT {lines[-1]}"
    return parse_hlo("HloModule m\nENTRY main {\n  " + "\n  ".join(lines) + "\n}")


def test_what_is_computed_at_several_indices_costs_as_often() -> None:
    """A chain of gathers in one kernel would look up each element 2 ** levels times."""
    module = chain(6)
    original = clone_module(module)
    fuse_by_priority(module)
    assert_same_values(original, module, seeds=1)
    looked_up = [
        sum([paths(body.root, x) for x in body.instructions.values() if x.opcode is Opcode.GATHER])
        for body in bodies(module)
    ]
    assert sum(looked_up) <= 2 * 6


@pytest.mark.parametrize("text", ["halving", *range(12)])
def test_pieces_known_are_never_fewer_than_those_counted(text: str | int) -> None:
    module = halving(6) if isinstance(text, str) else random_module(text)
    graphs = [fused_clusters(x, CPU_TARGET) for x in running_computations(module)]
    clusters = [cluster for graph in graphs for cluster in graph.owner.values()]
    assert clusters
    for cluster in clusters:
        counted = most_pieces(needs(cluster.members, cluster.root))
        assert counted <= min(cluster.most_pieces, CPU_TARGET.most_pieces)


def test_pieces_of_what_shares_no_value_do_not_add_up() -> None:
    lines = ["x0 = f32[4,8] parameter(0)"]
    for i in range(40):
        lines.append(f"y{i} = f32[4,8] parameter({i + 1})")
        lines.append(f"x{i + 1} = f32[4,8] add(x{i}, y{i})")
    lines[-1] = f"ROOT {lines[-1]}"
    module = parse_hlo("HloModule m\nENTRY main {\n  " + "\n  ".join(lines) + "\n}")
    (cluster,) = fused_clusters(module.entry, CPU_TARGET).owner.values()
    assert len(cluster.members) == 40
    assert cluster.most_pieces <= 4


@pytest.mark.parametrize(("levels", "fits"), [(1, True), (3, True), (4, True), (5, False)])
def test_a_cluster_that_is_put_together_is_counted_once(
    levels: int, fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = halving(levels).entry
    graph = ClusterGraph(entry, CPU_TARGET)
    counted = []

    def noted(members: Mapping[Instruction, None], root: Instruction) -> object:
        counted.append(len(members))
        return needs(members, root)

    for room in ("cluster", "legality"):
        monkeypatch.setattr(f"lowtide.fusion.{room}.needs", noted)
    members = {x: None for x in entry.instructions.values() if x.operands}
    found = graph._rebuilt(entry.root, members)
    assert (found is not None) is fits
    assert counted == [len(members)] * (levels > 3)
    if found is not None:
        assert found.members.keys() == members.keys()
        most = most_pieces(needs(found.members, entry.root))
        assert (found.most_pieces == most) if counted else (found.most_pieces >= most)
        assert found.needs() == needs(found.members, entry.root)


def test_an_operation_alone_takes_as_long_as_on_the_machine_that_is_asked_about() -> None:
    text = "ENTRY e { x = f32[4,6] parameter(0) ROOT y = f32[4,6] add(x, x) }"
    root = parse_hlo(text).entry.root
    machine = CPU_TARGET.machine
    slower = replace(machine, element_seconds=2 * machine.element_seconds)
    slow = replace(CPU_TARGET, machine=slower)
    found = [seed(root, 0, target) for target in (CPU_TARGET, slow, CPU_TARGET)]
    assert all(x is not None and list(x.inputs) == [root.operands[0]] for x in found)
    seconds = [x.seconds for x in found if x is not None]
    assert seconds == [compute_seconds(root, x.machine) for x in (CPU_TARGET, slow, CPU_TARGET)]
    assert seconds[0] == seconds[2] < seconds[1]
