"""Boxes and factors of arrays: they cover each element once, and leave no conditions behind."""

from collections.abc import Callable
from itertools import product

import pytest
from tests.codegen.loops import target_of

from lowtide.codegen import indexing
from lowtide.codegen.arrays import Array
from lowtide.codegen.domain import MOST_BOXES, LoopDomain, Visit, domains_of
from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.parts import within
from lowtide.codegen.indexing import Affine, Index
from lowtide.ir import ElementType
from lowtide.ir.shape import array_shape


def elements_of(domain: LoopDomain) -> list[tuple[int, ...]]:
    places = product(*[range(x) for x in domain.sizes])
    found = []
    for at in places:
        indices = domain.indices([indexing.constant(x) for x in at])
        found += [tuple([x.constant for x in index]) for index in indices]
    return found


def compared_with(*borders: tuple[int, int]) -> Visit:
    """A visit that compares the index along a dimension with numbers."""

    def visit(elements: Elements, index: Index) -> None:
        for dimension, border in borders:
            within(elements, index[dimension], 0, border)

    return visit


def reads_parts(part: Callable[[Elements, Index], Affine]) -> Visit:
    array = Array("%x", array_shape(ElementType.F32, (1 << 20,)))

    def visit(elements: Elements, index: Index) -> None:
        elements.read(array, (part(elements, index),), None)

    return visit


@pytest.mark.parametrize(
    ("sizes", "order", "visit", "boxes"),
    [
        ((6, 100), (0, 1), compared_with((0, 2), (1, 40)), 4),
        ((6, 100), (0, 1), compared_with((1, 2)), 1),
        ((6, 100), (1, 0), compared_with((1, 2)), 2),
        ((40, 5), (0, 1), compared_with(*[(0, x) for x in range(1, 30)]), 1),
        ((40, 5), (0, 1), compared_with((0, 0), (0, 40)), 1),
        ((4,), (0,), compared_with((0, 1), (0, 2)), 3),
        ((5,), (0,), compared_with((0, 1), (0, 2)), 1),
        ((2, 3), (0, 1), compared_with((1, 1)), 1),
        ((), (), compared_with(), 1),
        ((3, 0), (0, 1), compared_with(), 0),
    ],
)
def test_boxes(sizes: tuple[int, ...], order: tuple[int, ...], visit: Visit, boxes: int) -> None:
    found = domains_of(sizes, order, target_of("native"), visit)
    assert len(found) == boxes <= MOST_BOXES
    together = [x for domain, _ in found for x in elements_of(domain)]
    assert sorted(together) == list(product(*[range(x) for x in sizes]))
    if boxes > 1:
        assert all(not trial.elements.indices.tests for _, trial in found)


@pytest.mark.parametrize(
    ("sizes", "width", "places"),
    [((40, 10), 1, 10), ((40, 4, 6), 1, 6), ((40, 12), 6, 1), ((40, 90), 1, 1), ((40, 3), 1, 1)],
)
def test_pieces_of_one_element_are_gone_through_together(
    sizes: tuple[int, ...], width: int, places: int
) -> None:
    """Each piece of `width` elements along the last dimension is read at its own place."""
    array = Array("%x", array_shape(ElementType.F32, (1 << 20,)))

    def visit(elements: Elements, index: Index) -> None:
        *outer, last = index
        for start in range(0, sizes[-1], width):
            if within(elements, last + -start, 0, width) is not False:
                line = outer[0] * 1000 + start * 50000
                place = line + (last + -start).within(0, width - 1)
                elements.read(array, (place,), None)
                for _ in range(30):  # What takes longer than to store each place by itself.
                    elements.function.op("add i64 0, 0")

    ((domain, trial),) = domains_of(sizes, range(len(sizes)), target_of("native"), visit)
    assert 1 + len(domain.others) == places
    assert sorted(elements_of(domain)) == list(product(*[range(x) for x in sizes]))
    assert bool(trial.elements.indices.tests) == (places == 1)


@pytest.mark.parametrize(
    ("part", "sizes", "left"),
    [
        (lambda elements, index: elements.indices.split(index[0], 5)[0], (6, 5), 0),
        (lambda elements, index: elements.indices.split(index[0], 5)[1], (6, 5), 0),
        (lambda elements, index: elements.indices.split(index[0] * 2, 10)[1], (6, 5), 0),
        (lambda elements, index: elements.indices.split(index[0], 7)[1], (30,), 1),
        (lambda elements, index: elements.indices.split(index[0] + 1, 5)[1], (30,), 1),
    ],
)
def test_factors(
    part: Callable[[Elements, Index], Affine], sizes: tuple[int, ...], left: int
) -> None:
    ((domain, trial),) = domains_of((30,), (0,), target_of("native"), reads_parts(part))
    assert domain.sizes == sizes
    assert elements_of(domain) == [(x,) for x in range(30)]
    assert len(trial.elements.indices.quotients) == left


def test_what_cancels_is_not_divided() -> None:
    def part(elements: Elements, index: Index) -> Affine:
        quotient, remainder = elements.indices.split(index[0], 7)
        return quotient * 7 + remainder

    ((domain, trial),) = domains_of((30,), (0,), target_of("native"), reads_parts(part))
    assert domain.sizes == (30,)
    assert not trial.elements.indices.quotients
