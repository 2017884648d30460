"""Places of values in the machine that counts orders: who may follow whom."""

from tests.hunting.order_machine import needed_bytes
from tests.hunting.places import Places

from lowtide.compiler import PlanOptions, scheduled
from lowtide.frontend.hlo_text import parse_hlo


def steps(places):
    """The steps at which places are taken, by their values."""
    return {tuple(sorted(values)): stretches for values, stretches in places.taken()}


def test_what_is_made_where_a_value_is_read_last_takes_its_place():
    places = Places([0, 3, 3], [3, 5, 4], [(0, 1), (0, 2)])
    assert places.unite(0, 1)
    assert not places.unite(0, 2)  # Value 1 is there.
    assert steps(places) == {(0, 1): [(0, 5)], (2,): [(3, 4)]}


def test_a_place_that_is_left_to_an_heir_has_room_for_others_only_in_between():
    places = Places([0, 6, 2, 4], [2, 9, 4, 7], [(0, 2), (2, 3)])
    places.bind(0, 1)
    assert places.unite(0, 2)
    assert not places.unite(2, 3)  # It is there when the heir is made.
    assert steps(places) == {(0, 1, 2): [(0, 4), (6, 9)], (3,): [(4, 7)]}


def test_a_chain_comes_to_the_heir_of_the_first():
    places = Places([0, 2, 4, 6], [2, 4, 6, 9], [(0, 1), (1, 2), (2, 3)])
    places.bind(0, 3)
    assert places.unite(0, 1) and places.unite(1, 2)
    assert steps(places) == {(0, 1, 2, 3): [(0, 9)]}


def test_two_bound_places_never_become_one():
    places = Places([0, 4, 2, 8], [2, 6, 4, 9], [(0, 2)])
    places.bind(0, 1)
    places.bind(2, 3)
    assert not places.unite(0, 2)


DONATED = """HloModule m, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }
ENTRY e {
  x = f32[64] parameter(0)
  a = f32[64] negate(x)
  b = f32[64] sine(a)
  c = f32[64] cosine(a)
  ROOT t = (f32[64], f32[64], f32[64]) tuple(b, c, a)
}
"""


def test_a_value_that_outlives_the_making_of_the_output_is_not_in_its_argument_s_place():
    """`a` is a result of its own, so that `b` alone follows `x`: 512 bytes beside the argument."""
    module = scheduled(parse_hlo(DONATED), PlanOptions("input"))
    assert module.schedule is not None
    assert needed_bytes(module, module.schedule.sequences) == 512


def test_a_chain_of_values_takes_an_argument_s_place_and_comes_to_the_output():
    text = DONATED.replace("cosine(a)", "cosine(b)").replace(
        "(f32[64], f32[64], f32[64]) tuple(b, c, a)", "(f32[64]) tuple(c)"
    )
    module = scheduled(parse_hlo(text), PlanOptions("input"))
    assert module.schedule is not None
    assert needed_bytes(module, module.schedule.sequences) == 0
