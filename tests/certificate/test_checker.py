"""The three answers, on certificates of the planners and on small problems solved by trial."""

import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tests.certificate.cases import (
    answer,
    compact,
    in_regions,
    priced,
    random_problem,
    refutation_of,
    refuted,
    shared,
    signed,
    stacked,
    unproved,
)
from tests.certificate.truth import is_optimal, least_height
from tests.counting import lines_run

from lowtide.certificate import NOT_CERTIFIED, OPTIMAL, REJECTED, certify, check, write_certificate
from lowtide.certificate.checker import _Packing
from lowtide.planning import (
    assign_objects,
    assign_offsets,
    object_strategies,
    offset_strategies,
    place,
)
from lowtide.planning.certificates import certificate_text, evidence_name, offsets_certificate
from lowtide.planning.offsets.greedy_by_size import STRATEGIES
from lowtide.planning.plans import ObjectsAssignment, OffsetsAssignment, arena_packing
from lowtide.planning.problem import TensorUsageRecord, max_live, packing_problem
from lowtide.search.effort import SearchOptions

FIRST_FIT = STRATEGIES[0].place


@pytest.mark.parametrize("make", [stacked, in_regions, refuted, shared, priced])
def test_an_optimal_plan(make) -> None:
    document = make()
    verdict = answer(document)
    assert verdict.answer == OPTIMAL
    assert is_optimal(document)
    assert verdict.size == verdict.bound == document["bound"]


@pytest.mark.parametrize("make", [stacked, in_regions, refuted, shared, priced])
def test_a_plan_without_its_evidence(make) -> None:
    verdict = answer(signed({**make(), "evidence": {}, "bound": 0}))
    assert verdict.answer == NOT_CERTIFIED
    assert verdict.bound == 0 < verdict.size


def test_a_bound_below_the_plan_is_named() -> None:
    records = [TensorUsageRecord(4, 0, 1), TensorUsageRecord(4, 1, 2)]
    document = offsets_certificate(
        packing_problem(records), arena_packing(packing_problem(records), [0, 8])
    )
    verdict = answer(document)
    assert (verdict.answer, verdict.size, verdict.bound) == (NOT_CERTIFIED, 12, 8)
    assert verdict.detail == "12 bytes; 8 bytes are needed"


def test_the_bound_takes_alignments_in() -> None:
    records = [TensorUsageRecord(5, 0, 0), TensorUsageRecord(6, 0, 0), TensorUsageRecord(1, 0, 0)]
    problem = packing_problem(records, 4)
    document = offsets_certificate(problem, arena_packing(problem, [0, 8, 16]))
    assert answer(document) == (OPTIMAL, "17 bytes, and no plan is smaller", 17, 17)


@pytest.mark.parametrize(
    ("sizes", "alignments", "fixed", "offsets", "height", "unit"),
    [
        ((12, 12), (3, 4), {}, (0, 12), 24, 12),
        ((6, 6), (4, 4), {}, (0, 8), 14, 2),
        ((6, 6), (6, 1), {1: 6}, (0, 6), 12, 6),
        ((6,), (1,), {0: 4}, (4,), 10, 2),
        ((6, 6), (4, 3), {}, (0, 6), 12, 1),
    ],
)
def test_the_bound_is_rounded_up_to_what_sizes_and_places_have_in_common(
    sizes, alignments, fixed, offsets, height, unit
) -> None:
    problem = packing_problem([TensorUsageRecord(x, 0, 0) for x in sizes], alignments, fixed=fixed)
    document = offsets_certificate(problem, arena_packing(problem, offsets))
    assert document["plan"]["height"] == least_height(document["problem"]) == height
    assert answer(document).answer == OPTIMAL
    for refuted_height, expected in ((height - unit, OPTIMAL), (height - unit - 1, REJECTED)):
        document["evidence"] = {"height": refuted_height, "tree": [0]}
        assert answer(signed(document)).answer == expected


def test_nothing_at_all() -> None:
    problem = packing_problem([])
    document = offsets_certificate(problem, arena_packing(problem, []))
    assert answer(document).answer == OPTIMAL


def test_buffers_of_no_bytes_are_in_nobodys_way() -> None:
    records = [TensorUsageRecord(0, 0, 9), TensorUsageRecord(4, 0, 9), TensorUsageRecord(0, 0, 9)]
    problem = packing_problem(records)
    document = offsets_certificate(problem, arena_packing(problem, [2, 0, 2]))
    assert answer(document).answer == OPTIMAL
    nothing = packing_problem([records[0]])
    assert answer(offsets_certificate(nothing, arena_packing(nothing, [0]))).answer == OPTIMAL


def test_a_fixed_buffer_high_up_is_what_is_needed() -> None:
    records = [TensorUsageRecord(4, 0, 3), TensorUsageRecord(8, 2, 5)]
    problem = packing_problem(records, fixed={0: 64})
    document = offsets_certificate(problem, arena_packing(problem, [64, 0]))
    assert answer(document) == (OPTIMAL, "68 bytes, and no plan is smaller", 68, 68)


def test_stretches_that_overlap_count_once() -> None:
    problem = packing_problem([TensorUsageRecord(4, 0, 9)], gaps={0: [(3, 5)]})
    problem.last[0] = 7
    document = offsets_certificate(problem, arena_packing(problem, [0]))
    assert document["problem"]["buffers"][0][3] == [[0, 9]]
    assert answer(document).answer == OPTIMAL


def test_compact_json_with_or_without_a_line_feed() -> None:
    text = certificate_text(stacked())
    assert check(text.encode()).answer == check(f"{text}\n".encode()).answer == OPTIMAL
    for other in (f" {text}", f"{text} ", json.dumps(stacked()), json.dumps(stacked(), indent=1)):
        assert check(other.encode()).answer == REJECTED


def test_the_order_of_fields_says_nothing() -> None:
    assert (
        check(json.dumps(stacked(), sort_keys=True, separators=(",", ":")).encode()).answer
        == OPTIMAL
    )


def test_equal_plans_have_equal_certificates() -> None:
    assert compact(refuted()) == compact(refuted()) == certificate_text(refuted()).encode()


def test_a_certificate_as_a_file(tmp_path: Path) -> None:
    problem = packing_problem([TensorUsageRecord(4, 0, 1)])
    packing = FIRST_FIT(problem, SearchOptions())
    assignment = OffsetsAssignment(problem, packing, (0,), 4, 4)
    write_certificate(assignment, tmp_path / "x.json")
    assert check((tmp_path / "x.json").read_bytes()).answer == OPTIMAL
    assert json.loads((tmp_path / "x.json").read_text()) == certify(assignment)


def test_extents_have_no_certificate() -> None:
    records = (TensorUsageRecord((2, 3), 0, 1),)
    with pytest.raises(ValueError, match=r"record 0: size \(2, 3\) has several extents"):
        ObjectsAssignment((0,), ((2, 3),), records=records).certificate()


def test_all_strategies_give_certificates() -> None:
    draw = random.Random(3)
    begins = sorted([draw.randrange(20) for _ in range(24)])
    records = [TensorUsageRecord(draw.randrange(1, 99), x, x + draw.randrange(6)) for x in begins]
    for name in offset_strategies():
        found = assign_offsets(records, name)
        verdict = answer(found.certificate())
        assert (verdict.answer, verdict.size) != (REJECTED, 0), (name, verdict)
        assert verdict.size == found.total_size
        assert verdict.bound <= found.lower_bound
    for name in object_strategies():
        shared_by = assign_objects(records, name)
        verdict = answer(shared_by.certificate())
        assert verdict.answer != REJECTED, (name, verdict)
        assert verdict.size == shared_by.total_size


def test_a_reallocation_graph_is_heeded() -> None:
    records = [TensorUsageRecord(4, x, x) for x in range(4)]
    found = assign_objects(records, "greedy_in_order", reallocation_graph=[[2], [3], [0], [1]])
    assert found.object_ids == (0, 1, 0, 1)
    document = found.certificate()
    assert answer(document).answer == NOT_CERTIFIED
    document["plan"].update(objects=[0, 0, 1, 1])
    assert "tensor 1 must not follow 0" in answer(signed(document)).detail


# -- against trial of everything ---------------------------------------------------------------


def searched(problem):
    """Check trees of a problem at every height against the least height."""
    document = unproved(problem)
    least = least_height(document["problem"])
    if least is None:
        return 0
    assert document["bound"] <= least
    assert refutation_of(problem, least) is None, "a packing is overlooked"
    packing = arena_packing(problem, [0] * len(problem))
    found = 0
    for height in range(least):
        proof = refutation_of(problem, height)
        if proof is None:
            continue
        made = offsets_certificate(problem, replace(packing, refutation=proof))
        assert height < made["bound"] <= least
        bound = _Packing(made["problem"]).prove(made["evidence"])
        assert bound == made["bound"]
        tree = [x if isinstance(x, int) else list(x) for x in proof.tree]
        origin = int(problem.first.min(initial=0))
        tree = [x - origin if isinstance(x, int) else x for x in tree]
        bound = _Packing(made["problem"]).prove({"height": height, "tree": tree})
        assert height < bound <= least
        found += 1
    return found


def test_trees_say_the_truth() -> None:
    problems = [random_problem(random.Random(seed), 4 + seed % 2) for seed in range(40)]
    assert sum([searched(problem) for problem in problems]) > 100


@pytest.mark.slow
def test_trees_say_the_truth_at_length() -> None:
    problems = [random_problem(random.Random(seed), 3 + seed % 4) for seed in range(1_000, 2_000)]
    assert sum([searched(problem) for problem in problems]) > 2_000


def test_trees_of_the_exact_planner() -> None:
    """They are made without the code that checks them."""
    answers = []
    for seed in range(16):
        problem = random_problem(random.Random(seed), 9)
        found = place(problem, "exact")
        document = found.certificate()
        verdict = answer(document)
        assert verdict.answer != REJECTED, (seed, verdict)
        answers.append((verdict.answer, evidence_name(document)))
    assert answers.count((OPTIMAL, "refutation")) > 1


def test_first_fit_on_random_problems() -> None:
    for seed in range(60):
        draw = random.Random(seed)
        begins = [draw.randrange(60) for _ in range(40)]
        records = [
            TensorUsageRecord(draw.randrange(1, 99), x, x + draw.randrange(9)) for x in begins
        ]
        problem = packing_problem(records, draw.choice((1, 16)))
        packing = FIRST_FIT(problem, SearchOptions())
        verdict = answer(offsets_certificate(problem, packing))
        assert verdict.answer != REJECTED
        assert verdict.size == packing.arena_bytes
        assert verdict.bound >= max_live(problem)


def test_many_buffers_are_checked_quickly() -> None:
    """Up to 10,000 buffers, of which a tenth is live at once; a quadratic sweep runs 100 times as
    many lines for 10 times as many."""
    lines = []
    for count in (1_000, 10_000):
        lanes = count // 10
        records = [TensorUsageRecord(64, i // lanes, i // lanes) for i in range(count)]
        problem = packing_problem(records, 64)
        packing = arena_packing(problem, [64 * (i % lanes) for i in range(count)])
        data = compact(offsets_certificate(problem, packing))
        assert check(data).answer == OPTIMAL
        lines.append(lines_run(lambda data=data: check(data)))
    assert lines[1] < 15 * lines[0]
