"""Rules about results: aliased, repeated, or those of somebody else."""

from tests.buffers.copy_rules import loop, part_of, rule, update


@rule(free=1)
def an_argument_that_is_a_result_is_copied(b, p):
    return p


@rule(free=1)
def a_constant_that_is_a_result_is_copied(b, p):
    return b.tuple([b.constant([1.0, 2.0]), b.sine(p)])


@rule(free=3)
def a_repeated_result_an_argument_and_a_constant_are_copied(b, p):
    value = b.sine(p)
    return b.tuple([value, value, p, b.constant([1.0, 2.0])])


@rule(free=2)
def a_value_that_leaves_three_times_is_copied_twice(b, p):
    value = b.sine(p)
    return b.tuple([value, b.tuple([value, value])])


@rule(free=0)
def an_argument_that_the_same_output_overwrites_is_passed_on(b, p):
    b.alias((0,), 0)
    return b.tuple([p, b.cosine(p)])


@rule(free=0)
def an_output_is_written_over_the_argument_it_is_made_of(b, p):
    b.alias((0,), 0)
    value = b.sine(p)
    return b.tuple([value, b.cosine(value)])


@rule(free=0, given=1, xla=1, edges=[("cosine", "sine")])
def another_reader_of_an_argument_runs_before_it_is_overwritten(b, p):
    b.alias((0,), 0)
    return b.tuple([b.sine(p), b.cosine(p)])


@rule(free=0)
def a_reader_that_is_scheduled_before_the_output_is_written_needs_no_copy(b, p):
    b.alias((1,), 0)
    return b.tuple([b.sine(p), b.cosine(p)])


@rule(free=0, given=1, edges=[("sine", "cosine")])
def an_output_of_another_argument_waits_for_the_readers_of_the_one_it_overwrites(b, p, q):
    b.alias((0,), 0)
    return b.tuple([b.cosine(q), b.sine(p)])


@rule(free=1)
def an_output_cannot_overwrite_what_is_read_of_it_afterwards(b, p, q):
    b.alias((0,), 0)
    value = b.cosine(q)
    return b.tuple([value, value * p])


@rule(free=0)
def an_alias_that_must_be_is_like_one_that_may_be(b, p):
    b.alias((), 0, must=True)
    return b.sine(p)


@rule(free=0)
def a_donated_argument_that_no_output_overwrites_takes_no_copy(b, p):
    b.donate(0)
    return b.sine(p)


@rule(free=3, xla=4)
def two_arguments_that_change_places_take_one_copy_more_than_values(b, p, q):
    b.alias((0,), 0)
    b.alias((1,), 1)
    return b.tuple([q, p])


@rule(free=1)
def of_a_value_that_leaves_twice_one_copy_overwrites_the_argument(b, p):
    b.alias((1,), 0)
    value = b.sine(p)
    return b.tuple([value, value])


@rule(free=1)
def an_argument_that_leaves_over_another_one_is_copied_there(b, p, q):
    b.alias((), 1)
    return p


@rule(free=0, given=1, edges=[("dynamic-slice", "dynamic-update-slice")])
def a_part_of_a_donated_argument_is_read_before_its_update(b, p, u, k, n):
    b.alias((0,), 0)
    updated = update(p, u, k)
    return b.tuple([updated, part_of(p, n)])


@rule(free=1)
def a_donated_argument_is_updated_in_place_within_a_loop(b, p, u):
    b.alias((), 0)
    return loop([p, u], lambda i, x, y: [update(x, y, i), y])[1]


@rule(free=2)
def a_donated_argument_that_is_read_after_its_loop_is_copied(b, p):
    b.alias((0,), 0)
    final = loop([p], lambda i, x: [x.builder.sine(x)])[1]
    return b.tuple([final, final * p])
