"""Rules about operations that write over an operand."""

from tests.buffers.copy_rules import NUMBER, PART, VECTOR, part_of, rule, update

from lowtide.ir import ElementType, Opcode, array_shape
from lowtide.ir.attributes import Aliasing, CustomCall, Scatter

IDENTITY = "annotate_device_placement"


@rule(free=1)
def an_argument_that_is_not_donated_is_copied_before_it_is_updated(b, p, u, k):
    return update(p, u, k)


@rule(free=0)
def an_argument_that_the_output_overwrites_is_updated_in_place(b, p, u, k):
    b.alias((), 0)
    return update(p, u, k)


@rule(free=1)
def a_constant_is_copied_before_it_is_updated(b, u, k):
    return update(b.constant([1.0, 2.0, 3.0, 4.0]), u, k)


@rule(free=0)
def a_broadcast_is_no_constant_and_is_updated_in_place(b, u, k):
    return update(b.broadcast(b.constant(0.0), [4], []), u, k)


@rule(free=1)
def a_value_read_after_the_update_by_what_reads_the_update_too_is_copied(b, p, u, k):
    value = b.sine(p)
    return update(value, u, k) - value


@rule(free=0)
def a_chain_of_updates_needs_no_copy(b, p, u, k, n):
    return update(update(b.sine(p), u, k), u, n)


@rule(free=0, given=1, edges=[("cosine", "dynamic-update-slice")])
def another_reader_runs_before_the_update(b, p, u, k):
    value = b.sine(p)
    updated = update(value, u, k)
    return b.tuple([updated, b.cosine(value)])


@rule(free=0)
def a_reader_that_is_scheduled_before_the_update_needs_no_copy(b, p, u, k):
    value = b.sine(p)
    read = b.cosine(value)
    return b.tuple([update(value, u, k), read])


@rule(free=1, xla=2)
def of_two_updates_of_one_value_one_is_in_place(b, p, u, k, n):
    value = b.sine(p)
    return b.tuple([update(value, u, k), update(value, u, n)])


@rule(free=2)
def of_three_updates_of_one_value_one_is_in_place(b, p, u, k, n):
    value = b.sine(p)
    return b.tuple([update(value, u, k), update(value, u, n), update(value, u, k)])


@rule(free=1)
def a_value_that_is_its_own_update_is_copied(b, p, k):
    value = b.sine(p)
    return update(value, value, k)


@rule(free=0)
def a_part_of_the_value_itself_may_be_the_update(b, p, k, n):
    value = b.sine(p)
    return update(value, part_of(value, n), k)


@rule(free=1)
def two_updates_that_read_each_others_target_cannot_both_come_last(b, p, q, k):
    one, other = b.sine(p), b.cosine(q)
    return b.tuple([update(one, other, k), update(other, one, k)])


@rule(free=0, xla=2)
def parts_of_each_others_targets_are_read_before_both_updates(b, p, q, k):
    one, other = b.sine(p), b.cosine(q)
    first, second = part_of(one, k), part_of(other, k)
    return b.tuple([update(one, second, k), update(other, first, k)])


@rule(free=2)
def each_update_of_an_argument_needs_a_copy_of_its_own(b, p, u, k, n):
    return b.tuple([update(p, u, k), update(p, u, n)])


@rule(free=1)
def a_scatter_writes_over_what_is_read_afterwards(b, p, u, k):
    value = b.sine(p)
    return scatter(value, u, k) * value


@rule(free=0, given=1, edges=[("cosine", "scatter")])
def another_reader_runs_before_the_scatter(b, p, u, k):
    value = b.sine(p)
    return b.tuple([scatter(value, u, k), b.cosine(value)])


@rule(free=0)
def a_sort_may_have_a_place_of_its_own(b, p):
    value = b.sine(p)
    return b.tuple([sort(value), value])


@rule(free=0)
def an_elementwise_result_may_have_a_place_of_its_own(b, p):
    value = b.sine(p)
    return b.tuple([b.cosine(value), value])


@rule(free=0)
def a_triangular_solve_may_have_a_place_of_its_own(b, m):
    value = b.sine(m)
    return b.tuple([b.triangular_solve(m, value, unit_diagonal=True), value])


@rule(free=1)
def a_fusion_that_ends_in_an_update_writes_over_what_is_read_afterwards(b, p, u, k):
    value = b.sine(p)
    return updating_fusion(value, u, k) + value


@rule(free=0, given=1, edges=[("cosine", "fusion")])
def another_reader_runs_before_a_fusion_that_ends_in_an_update(b, p, u, k):
    value = b.sine(p)
    return b.tuple([updating_fusion(value, u, k), b.cosine(value)])


@rule(free=0)
def a_fusion_that_reads_the_part_which_it_updates_is_in_place(b, p, k):
    value = b.sine(p)
    fused = b.sub_computation("fused", [VECTOR, NUMBER], lambda x, i: update(x, -part_of(x, i), i))
    return b.fusion([value, k], fused)


@rule(free=0, given=1, edges=[("cosine", "fusion")])
def a_fusion_overwrites_its_operand_under_another_shape(b, p, u, k):
    value = b.sine(p)
    square = array_shape(ElementType.F32, (2, 2))
    fused = b.sub_computation(
        "fused", [VECTOR, PART, NUMBER], lambda x, y, i: x.builder.bitcast(update(x, y, i), square)
    )
    return b.tuple([b.fusion([value, u, k], fused), b.cosine(value)])


@rule(free=1)
def one_update_within_a_fusion_of_two_results_needs_its_operand_copied(b, p, u, k):
    value = b.sine(p)
    fused = b.sub_computation(
        "fused",
        [VECTOR, PART, NUMBER],
        lambda x, y, i: x.builder.tuple([update(x, y, i), x.builder.negate(y)]),
    )
    both = b.fusion([value, u, k], fused)
    return b.tuple([both[0] + value, both[1]])


@rule(free=0)
def an_update_of_what_its_fusion_returns_too_is_written_elsewhere(b, p, u, k):
    value = b.sine(p)
    fused = b.sub_computation(
        "fused",
        [VECTOR, PART, NUMBER],
        lambda x, y, i: x.builder.tuple([update(x, y, i), x.builder.negate(x)]),
    )
    both = b.fusion([value, u, k], fused)
    return both[0] + both[1] + value


@rule(free=0, given=1, edges=[("cosine", "fusion")])
def a_fusion_that_declares_an_alias_overwrites_its_operand(b, p, q):
    value = b.sine(p)
    fused = b.sub_computation("fused", [VECTOR, VECTOR], lambda x, y: x.builder.reverse(y, [0]))
    result = b.fusion([value, q], fused, "kLoop", [Aliasing((), 0)])
    return b.tuple([result, b.cosine(value)])


@rule(free=0, given=1, edges=[("cosine", "custom-call")])
def a_custom_call_that_declares_an_alias_overwrites_its_operand(b, p):
    value = b.sine(p)
    call = CustomCall(IDENTITY, output_to_operand_aliasing=(Aliasing((), 0),))
    return b.tuple([b.custom_call(call, [value], VECTOR), b.cosine(value)])


@rule(free=0)
def a_custom_call_without_an_alias_overwrites_nothing(b, p):
    value = b.sine(p)
    return b.custom_call(IDENTITY, [value], VECTOR) + value


@rule(free=1)
def an_all_reduce_writes_over_what_is_read_afterwards(b, p):
    value = b.sine(p)
    add = b.scalar_computation(Opcode.ADD, ElementType.F32)
    return b.all_reduce_done(b.all_reduce_start(value, add)) + value


@rule(free=0, given=1, edges=[("slice", "set-dimension-size")])
def a_new_dynamic_size_is_set_in_place(b, p, k):
    value = b.sine(p)
    sized = b.set_dimension_size(value, k, 0)
    return b.convert(b.get_dimension_size(sized, 0), ElementType.F32) + value[0]


# -- through what forwards its operand ---------------------------------------------------------


@rule(free=1)
def a_barrier_forwards_what_is_then_overwritten(b, p, u, k):
    value = b.sine(p)
    return update(b.opt_barrier(value), u, k) - value


@rule(free=0)
def a_barrier_alone_keeps_an_update_in_place(b, p, u, k):
    return update(b.opt_barrier(b.sine(p)), u, k)


@rule(free=1)
def a_bitcast_forwards_what_is_then_overwritten(b, m, u, k):
    value = b.sine(m)
    flat = b.bitcast(value, array_shape(ElementType.F32, (16,)))
    return b.reshape(update(flat, u, k), [4, 4]) - value


@rule(free=1)
def a_tuple_forwards_what_is_then_overwritten(b, p, q, u, k):
    value = b.sine(p)
    pair = b.opt_barrier(b.tuple([value, q]))
    return update(pair[0], u, k) - value


@rule(free=0)
def a_copy_takes_its_operand_out_of_the_way(b, p, u, k):
    value = b.sine(p)
    return update(b.copy(value), u, k) - value


@rule(free=0)
def an_asynchronous_copy_takes_its_operand_out_of_the_way(b, p, u, k):
    value = b.sine(p)
    return update(b.copy_done(b.copy_start(value)), u, k) - value


# -- what is under way -------------------------------------------------------------------------


@rule(free=0, given=1, edges=[("copy-done", "dynamic-update-slice")])
def the_source_of_an_asynchronous_copy_is_read_until_it_is_done(b, p, u, k):
    value = b.sine(p)
    start = b.copy_start(value)
    updated = update(value, u, k)
    return b.tuple([updated, b.copy_done(start)])


@rule(free=0, given=1, edges=[("async-done", "dynamic-update-slice")])
def the_operand_of_an_asynchronous_call_is_read_until_it_is_done(b, p, u, k):
    value = b.sine(p)
    task = b.sub_computation("task", [VECTOR], lambda x: x.builder.cosine(x.builder.negate(x)))
    start = b.async_start(value, task)
    updated = update(value, u, k)
    return b.tuple([updated, b.async_done(start)])


@rule(free=1)
def an_asynchronous_update_writes_over_what_is_read_afterwards(b, p, u, k):
    value = b.sine(p)
    task = b.sub_computation("task", [VECTOR, PART, NUMBER], update)
    return b.async_done(b.async_start([value, u, k], task)) - value


# -- parts of programs -------------------------------------------------------------------------


def scatter(target, updates, place):
    """Return the vector with one number added to an element."""
    b = target.builder
    add = b.scalar_computation(Opcode.ADD, ElementType.F32)
    indices = b.reshape(place, [1, 1])
    return b.scatter(target, indices, updates, add, Scatter((), (0,), (0,), 1))


def sort(value):
    """Return the numbers in increasing order."""
    scalars = [array_shape(ElementType.F32)] * 2
    less = value.builder.sub_computation("less", scalars, lambda x, y: x.lt(y))
    return value.builder.sort([value], less)


def updating_fusion(target, part, start):
    """Return the vector with one element replaced by the negative of another one, fused."""
    b = target.builder
    fused = b.sub_computation("fused", [VECTOR, PART, NUMBER], lambda x, y, i: update(x, -y, i))
    return b.fusion([target, part, start], fused)
