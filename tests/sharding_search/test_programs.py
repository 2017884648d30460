"""Choices for JAX programs: on eight virtual devices they compute what one device computes."""

import sys
from pathlib import Path

import numpy as np
import pytest
from tests.spmd.equal_results import check_equal

from lowtide.evaluator.evaluate import parameter_leaves
from lowtide.frontend.hlo_proto import read_hlo_proto
from lowtide.ir import Module
from lowtide.ir.literal import DTYPES
from lowtide.sharding_search.bound import least_bytes
from lowtide.sharding_search.division import Division
from lowtide.sharding_search.mesh import SearchMesh, mesh_of_devices, mesh_of_text
from lowtide.sharding_search.program import annotated_module
from lowtide.sharding_search.search import SearchEffort, prepared, search_prepared

pytest.importorskip("jax")
BENCHMARKS = str(Path(__file__).parents[2] / "benchmarks")
EFFORT = SearchEffort(estimates=30, plans=4)
NAMES = ("mlp", "transformer", "moe", "vit", "resnet", "scan")
QUICK = {("mlp", False), ("mlp", True), ("moe", False)}
ROWS = [
    pytest.param(name, train, id=f"{name}-{'step' if train else 'forward'}", marks=marks)
    for name in NAMES
    for train in (False, True)
    for marks in [() if (name, train) in QUICK else (pytest.mark.slow,)]
]


@pytest.fixture
def programs(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import shard_programs

    yield shard_programs
    sys.modules.pop("shard_programs", None)


def module_of(programs, name: str, *, train: bool) -> Module:
    lowered = programs.PROGRAMS[name](programs.SMALL).lowered(train=train)
    return read_hlo_proto(lowered.compiler_ir("hlo").as_serialized_hlo_module_proto())


def arguments_for(module: Module) -> list[np.ndarray]:
    """Return small numbers, and indices that are within the vocabulary."""
    random = np.random.default_rng(3)
    found = []
    for leaf in parameter_leaves(module):
        dtype, sizes = DTYPES[leaf.shape.element_type], leaf.shape.dimensions
        numbers = random.integers(0, 32, sizes) if dtype.kind in "iu" else random.normal(size=sizes)
        found.append((numbers if dtype.kind in "iu" else 0.3 * numbers).astype(dtype))
    return found


def check_choices(module: Module, mesh: SearchMesh) -> None:
    """Run the quickest choice under three caps, and the smallest one, on virtual devices."""
    arguments = arguments_for(module)
    found = prepared(module, mesh, keeps=True)
    free = search_prepared(found, effort=EFFORT)
    quickest, smallest = free.choices[0], free.choices[-1]
    caps = {
        int(1.01 * smallest.peak_bytes),
        (quickest.peak_bytes + smallest.peak_bytes) // 2,
        quickest.peak_bytes,
    }
    choices = [smallest]
    for cap in sorted(caps):
        report = search_prepared(found, cap, effort=EFFORT)
        assert report.choices
        assert all(choice.peak_bytes <= cap for choice in report.choices)
        assert report.bound_bytes == least_bytes(found.program) <= cap
        choices.append(report.choices[0])
    for choice in {(str(x.mesh), str(x.arguments)): x for x in choices}.values():
        parts = check_equal(annotated_module(module, choice), arguments)
        assert parts.grid.count == mesh.count


@pytest.mark.parametrize("name, train", ROWS)
def test_choices_compute_what_one_device_computes(programs, name, train):
    check_choices(module_of(programs, name, train=train), mesh_of_text("4x2"))


@pytest.mark.slow
@pytest.mark.parametrize("name, train", ROWS)
def test_choices_for_a_number_of_devices(programs, name, train):
    check_choices(module_of(programs, name, train=train), mesh_of_devices(8))


@pytest.mark.parametrize("name, train", ROWS)
def test_a_search_is_as_good_as_divisions_by_hand(programs, name, train):
    module = module_of(programs, name, train=train)
    found = prepared(module, mesh_of_text("4x2"), keeps=True)
    program = found.program
    names = [leaf.name for leaf in program.leaves]
    hand = [
        found.planner.plan(
            Division(programs.by_hand(names, program.sizes, program.mesh.sizes, way)), None
        )
        for way in ("data", "fully", "tensor", "2d")
    ]
    report = search_prepared(found)
    assert report.best.seconds <= 1.05 * min([x.seconds for x in hand])
    assert report.bound_bytes <= min([x.peak_bytes for x in hand])
