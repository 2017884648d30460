"""Certificates of modules: those of plans are accepted, what is changed in them shows."""

import random

import pytest
from tests.analysis.random_modules import RandomModule
from tests.budgeting.chains import training_step
from tests.certificate.cases import answer, copied, signed
from tests.random_modules import MEMORY, SeededChoices, random_module, random_schedule

from lowtide.analysis.dataflow import dataflow
from lowtide.analysis.donation import aliases
from lowtide.analysis.live_range import live_ranges, needs_no_copies
from lowtide.certificate import REJECTED
from lowtide.certificate.modules import differences, module_orders
from lowtide.compiler import PlanOptions, plan
from lowtide.compiler.certificates import arena_of, certificate_of, certify
from lowtide.frontend.hlo_text import parse_hlo
from lowtide.ir import LowtideError
from lowtide.search.effort import Effort, SearchOptions


def module_of(seed):
    if seed % 2:
        return random_module(seed, MEMORY)
    return parse_hlo(RandomModule(seed, 3 + seed % 6).text())


def least_of_some_orders(module, seed, count):
    flows, pairs = dataflow(module.entry), aliases(module)
    found = []
    for number in range(count):
        sequences = random_schedule(module, SeededChoices(1000 * seed + number)).sequences
        if needs_no_copies(module.entry, sequences, flows, pairs):
            ranges = live_ranges(module.entry, sequences, flows, pairs, owns_results=True)
            found.append(ranges.live_bytes)
    return min(found, default=None)


def of_plans(seeds):
    for seed in seeds:
        made = plan(module_of(seed), PlanOptions("input"))
        document, ladder = certificate_of(made), made.report.ladder
        verdict = answer(document)
        assert verdict.answer != REJECTED, (seed, verdict)
        assert (verdict.bound, verdict.size) == (ladder.bound_bytes, ladder.arena_bytes), seed
        least = least_of_some_orders(made.module, seed, 4)
        assert least is None or verdict.bound <= least, seed
        assert differences(document, module_orders(made.module, {}), arena_of(made).rows) == []


def test_certificates_of_plans() -> None:
    of_plans(range(40))


@pytest.mark.slow
def test_certificates_of_many_plans() -> None:
    of_plans(range(20_000, 20_500))


def test_a_plan_and_its_text_have_the_same_facts() -> None:
    for seed in range(20):
        made = plan(module_of(seed), PlanOptions("input"))
        again = plan(parse_hlo(str(made.module)))
        document = certify(again.module)
        assert document["problem"] == certificate_of(made)["problem"]
        assert document["plan"]["orders"] == certificate_of(made)["plan"]["orders"]
        assert not differences(document, module_orders(made.module, {}), arena_of(made).rows)


def test_a_module_without_a_schedule_has_no_certificate() -> None:
    with pytest.raises(LowtideError, match="is not scheduled"):
        certify(module_of(1))


def test_the_order_is_that_of_the_schedule() -> None:
    """Bounds of a plan may have been worked out before a lower order was taken."""
    made = plan(
        training_step(layers=5), PlanOptions("simplified", search=SearchOptions(Effort.FAST))
    )
    document = certificate_of(made)
    assert answer(document).answer != REJECTED
    assert differences(document, module_orders(made.module, {}), arena_of(made).rows) == []


def places_of_numbers(section, path=()):
    """Yield the paths of all numbers in a document."""
    rows = section.items() if isinstance(section, dict) else enumerate(section)
    for name, value in rows:
        if isinstance(value, int):
            yield (*path, name)
        elif isinstance(value, dict | list):
            yield from places_of_numbers(value, (*path, name))


FREE = {"evidence", "places", "takes", "budget"}
"""What may be given in several ways: then the checker has found that another one is right, too."""


def test_a_number_that_is_changed_shows() -> None:
    shown = 0
    for seed in (2, 3, 7, 10, 13):
        made = plan(module_of(seed), PlanOptions("input"))
        document = certificate_of(made)
        computations, arena = module_orders(made.module, {}), arena_of(made).rows
        draw = random.Random(seed)
        paths = [*places_of_numbers(document)]
        for path in draw.sample(paths, min(60, len(paths))):
            broken = copied(document)
            section = broken
            for name in path[:-1]:
                section = section[name]
            section[path[-1]] = max(0, section[path[-1]] + draw.choice((-1, 1)))
            if broken == document:
                continue
            found = answer(signed(broken)).answer == REJECTED
            found = found or bool(differences(broken, computations, arena))
            shown += found
            assert found or FREE & {*path}, (seed, path)
    assert shown > 150
