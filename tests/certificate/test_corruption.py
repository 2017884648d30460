"""Certificates damaged at random: in bytes, in values, and in values with a digest that fits."""

import json
import random
from itertools import product

import pytest
from tests.certificate.cases import (
    answer,
    compact,
    copied,
    in_regions,
    priced,
    random_problem,
    refuted,
    shared,
    signed,
    stacked,
    unproved,
)
from tests.certificate.truth import is_optimal, least_height, least_total

from lowtide.certificate import NOT_CERTIFIED, OPTIMAL, REJECTED, check
from lowtide.certificate.checker import _Packing, _Sharing

MAKERS = [stacked, in_regions, refuted, shared, priced]
NUMBERS = (-(2**63), -2, -1, 0, 1, 2, 3, 7, 8, 2**31, 2**62, 2**64, 10**30)
ANYTHING = (*NUMBERS, 1.5, True, None, "", "x", [], {}, [0], {"kind": "live"})


def damaged(draw, data):
    """The bytes with a change somewhere."""
    at = draw.randrange(len(data))
    end = draw.randrange(at, len(data))
    other = draw.randrange(256)
    return draw.choice(
        [
            data[:at] + bytes([data[at] ^ 1 << draw.randrange(8)]) + data[at + 1 :],
            data[:at] + bytes([other]) + data[at + 1 :],
            data[:at] + bytes([other]) + data[at:],
            data[:at] + draw.choice((b" ", b"\n", b"0", b"-", b",")) + data[at:],
            data[:at] + data[at + 1 :],
            data[:at],
            data[:at] + data[end:],
            data[:end] + data[at:],
        ]
    )


def changed(draw, document):
    """The document with another value somewhere, one more, one less, or two the other way round."""
    document = copied(document)
    places = list(_places(document))
    owner, key = draw.choice(places)
    value = owner[key]
    kind = draw.randrange(7)
    if kind < 3 and type(value) is int:
        owner[key] = draw.choice((value + 1, value - 1, 2 * value, -value, *NUMBERS))
    elif kind == 3 and isinstance(owner, list):
        del owner[key]
    elif kind == 4 and isinstance(owner, list):
        owner.insert(key, draw.choice((value, *NUMBERS)))
    elif kind == 5 and isinstance(owner, list):
        other = draw.randrange(len(owner))
        owner[key], owner[other] = owner[other], owner[key]
    elif kind == 6 and isinstance(owner, dict):
        del owner[key]
        if draw.random() < 0.5:
            owner[draw.choice(("x", f"{key} "))] = value
    else:
        owner[key] = draw.choice(ANYTHING)
    return document


def _places(value):
    """(owner, key) of all that a document consists of."""
    for key in value if isinstance(value, dict) else range(len(value)):
        yield value, key
        if isinstance(value[key], dict | list):
            yield from _places(value[key])


@pytest.mark.parametrize("make", MAKERS)
def test_no_damage_to_the_bytes_goes_unnoticed(make) -> None:
    draw, data = random.Random(1), compact(make())
    for _ in range(1_000):
        broken = damaged(draw, data)
        assert broken == data or check(broken).answer == REJECTED, broken


@pytest.mark.parametrize("make", MAKERS)
def test_no_change_of_a_value_goes_unnoticed(make) -> None:
    draw, document = random.Random(2), make()
    text = json.dumps(document, separators=(",", ":"))
    for _ in range(1_000):
        broken = json.dumps(changed(draw, document), separators=(",", ":"))
        assert broken == text or check(broken.encode()).answer == REJECTED, broken


@pytest.mark.parametrize("make", MAKERS)
def test_every_digit_counts(make) -> None:
    """Each byte of the certificate in turn, replaced by what it may be taken for."""
    data = compact(make())
    for at in range(len(data)):
        for other in b"01a ":
            if data[at] != other:
                broken = data[:at] + bytes([other]) + data[at + 1 :]
                assert check(broken).answer == REJECTED, broken


def checked_against_truth(seed, document, changes):
    """Change a document with a new digest each time; return how often it was rejected."""
    draw = random.Random(seed)
    rejected = 0
    for _ in range(changes):
        broken = changed(draw, document)
        if draw.random() < 0.3:
            broken = changed(draw, broken)
        verdict = answer(signed(broken))
        rejected += verdict.answer == REJECTED
        if verdict.answer == OPTIMAL:
            assert is_optimal(broken), broken
        if verdict.answer == NOT_CERTIFIED:
            least = least_height if broken["kind"] == "offsets" else least_total
            assert verdict.bound <= least(broken["problem"]) <= verdict.size, broken
    return rejected


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_signed_anew_and_not_rejected_is_so(make) -> None:
    changes = 250 if make is refuted else 1_000  # there is most to try
    rejected = checked_against_truth(4, make(), changes)
    assert 0.7 * changes < rejected < changes


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("make", MAKERS)
def test_what_is_signed_anew_and_not_rejected_is_so_at_length(make, seed) -> None:
    checked_against_truth(100 + seed, make(), 500 if make is refuted else 3_000)


def test_evidence_at_random_proves_nothing_that_is_not_so() -> None:
    """Bounds from steps and trees made up at random never exceed the least height."""
    proofs = 0
    for seed in range(200):
        draw = random.Random(seed)
        document = unproved(random_problem(draw, 4, fixed=False))
        least = least_height(document["problem"])
        for _ in range(10):
            height = draw.randrange(least + 3)
            tree = [
                draw.choice((0, 1, 2, 3, 4, [draw.randrange(4), draw.randrange(4)]))
                for _ in range(draw.randrange(1, 8))
            ]
            proofs += _proves(_Packing, document, {"height": height, "tree": tree}, least)
    assert proofs > 50


def test_prices_at_random_prove_nothing_that_is_not_so() -> None:
    proofs = 0
    for seed in range(400):
        draw = random.Random(seed)
        first = [draw.randrange(5) for _ in range(5)]
        tensors = [[2 * draw.randrange(5), x, x + draw.randrange(3)] for x in first]
        document = {"problem": {"tensors": tensors, "follow": []}}
        least = least_total(document["problem"])
        for _ in range(20):
            rate = draw.randrange(1, 4)
            prices = [draw.randrange(2 * rate * size // 2 + 1) for size, _, _ in tensors]
            proofs += _proves(_Sharing, document, {"prices": prices, "rate": rate}, least)
    assert proofs > 300


def _proves(kind, document, evidence, least):
    try:
        bound = kind(document["problem"]).prove(evidence)
    except (ValueError, IndexError):
        return False
    assert bound <= least, (document, evidence)
    return True


def test_evidence_about_fixed_places_proves_nothing_that_is_not_so() -> None:
    """A buffer of no bytes may be fixed within another one."""
    proofs = 0
    for seed in range(60):
        draw = random.Random(seed)
        rows = []
        for i in range(3):
            size = draw.choice((0, 0, 4, 6))
            rows.append(
                [size, 1, [0, draw.randrange(8)] if size == 0 else [], [[0, draw.randrange(3)]]]
            )
            if i == 0 and size:
                rows[0][2] = [0, 0]
        problem = {"buffers": rows, "regions": []}
        least = least_height(problem)
        if least is None:
            continue
        for i, j, step, height in product(range(3), range(3), range(3), range(least, least + 4)):
            evidence = {"height": height, "tree": [[i, j], step, step]}
            proofs += _proves(_Packing, {"problem": problem}, evidence, least)
            evidence = {"height": height - 4, "tree": [step]}
            proofs += height >= 4 and _proves(_Packing, {"problem": problem}, evidence, least)
    assert proofs > 50
