"""Rules about loops, conditionals and calls."""

from tests.buffers.copy_rules import NUMBER, PART, VECTOR, choose, loop, part_of, rule, update

# -- loops: each takes one copy of the constant that its counter starts from -------------------


@rule(free=2)
def an_argument_that_a_loop_changes_is_copied_once_before_it(b, p):
    return loop([p], lambda i, x: [x.builder.sine(x)])[1]


@rule(free=1)
def an_argument_that_the_output_overwrites_enters_a_loop_in_place(b, p):
    b.alias((), 0)
    return loop([p], lambda i, x: [x.builder.sine(x)])[1]


@rule(free=2)
def what_a_loop_passes_on_unchanged_is_not_copied(b, p, q):
    return loop([p, q], lambda i, x, y: [x * y, y])[1]


@rule(free=2)
def a_constant_that_a_loop_passes_on_unchanged_is_not_copied(b, p):
    constant = b.constant([1.0, 2.0, 3.0, 4.0])
    return loop([p, constant], lambda i, x, y: [x * y, y])[1]


@rule(free=4, xla=5)
def a_swap_takes_one_copy_more_than_it_moves_values(b, p, q):
    state = loop([b.sine(p), b.cosine(q)], lambda i, x, y: [y, x])
    return b.tuple([state[1], state[2]])


@rule(free=5, xla=7)
def a_rotation_takes_one_copy_more_than_it_moves_values(b, p, q, r):
    inits = [b.sine(p), b.cosine(q), b.tanh(r)]
    state = loop(inits, lambda i, x, y, z: [y, z, x])
    return b.tuple([state[1], state[2], state[3]])


@rule(free=2)
def the_old_value_of_a_carry_becomes_another_carry(b, p, q):
    state = loop([b.sine(p), b.cosine(q)], lambda i, x, y: [x.builder.sine(x), x])
    return b.tuple([state[1], state[2]])


@rule(free=3)
def values_that_move_along_a_chain_of_carries_are_copied_from_its_end(b, p, q, r):
    inits = [b.sine(p), b.cosine(q), b.tanh(r)]
    state = loop(inits, lambda i, x, y, z: [x.builder.negate(x), x, y])
    return b.tuple([state[1], state[2], state[3]])


@rule(free=1, given=2, xla=2, edges=[("add", "sine")])
def a_carry_is_read_before_its_next_value_is_written(b, p, q):
    state = loop([b.sine(p), b.cosine(q)], lambda i, x, s: [x.builder.sine(x), s + x])
    return b.tuple([state[1], state[2]])


@rule(free=1)
def a_carry_whose_reader_leads_to_its_next_value_is_in_place(b, p, q):
    def step(i, x, s):
        total = s + x
        return [x.builder.sine(total), total]

    state = loop([b.sine(p), b.cosine(q)], step)
    return b.tuple([state[1], state[2]])


@rule(free=2)
def a_value_that_is_used_after_the_loop_is_copied_before_it(b, p):
    value = b.exponential(p)
    return loop([value], lambda i, x: [x.builder.sine(x)])[1] - value


@rule(free=1, given=2, edges=[("cosine", "while")])
def another_reader_of_an_initial_value_runs_before_the_loop(b, p):
    value = b.exponential(p)
    final = loop([value], lambda i, x: [x.builder.sine(x)])[1]
    return b.tuple([final, b.cosine(value)])


@rule(free=2)
def one_value_cannot_start_two_carries(b, p):
    value = b.exponential(p)
    state = loop([value, value], lambda i, x, y: [x.builder.sine(x), y.builder.cosine(y)])
    return b.tuple([state[1], state[2]])


@rule(free=3)
def an_argument_that_starts_two_carries_is_copied_twice(b, p):
    state = loop([p, p], lambda i, x, y: [x.builder.sine(x), y.builder.cosine(y)])
    return b.tuple([state[1], state[2]])


@rule(free=1)
def a_value_passed_on_twice_needs_no_copy_within_the_loop(b, p, q):
    value = b.exponential(q)
    return loop([b.sine(p), value, value], lambda i, x, y, z: [x * y + z, y, z])[1]


@rule(free=2)
def a_body_that_returns_a_constant_copies_it(b, p):
    constant = [1.0, 2.0, 3.0, 4.0]
    return loop([b.sine(p)], lambda i, x: [x.builder.op(constant)])[1]


@rule(free=2)
def a_body_that_returns_one_value_for_two_carries_copies_it(b, p, q):
    def step(i, x, y):
        total = x + y
        return [total, total]

    state = loop([b.sine(p), b.cosine(q)], step)
    return b.tuple([state[1], state[2]])


@rule(free=2)
def a_loop_in_a_loop_needs_a_counter_each_and_nothing_else(b, p):
    def step(i, x):
        return [loop([x], lambda j, y: [y.builder.sine(y)])[1]]

    return loop([b.sine(p)], step)[1]


@rule(free=3)
def a_carry_that_is_read_after_an_inner_loop_is_copied_before_that(b, p):
    def step(i, x):
        return [loop([x], lambda j, y: [y.builder.sine(y)])[1] + x]

    return loop([b.sine(p)], step)[1]


@rule(free=1)
def a_condition_reads_the_state_before_the_body_overwrites_it(b, p):
    return loop([b.sine(p)], lambda i, x: [x.builder.reverse(x, [0]) * x])[1]


@rule(free=1, given=1, xla=2, edges=[("dynamic-update-slice", "add")])
def the_counter_grows_after_the_update_that_it_places(b, p, u):
    return loop([b.sine(p), u], lambda i, x, y: [update(x, y, i), y])[1]


@rule(free=1, given=2, xla=2)
def a_counter_that_grows_before_the_update_that_it_places_is_copied(b, p, u):
    return loop([b.sine(p), u], lambda i, x, y: [update(x, y, i), y], counts_first=True)[1]


@rule(free=1, given=2, xla=5)
def the_update_stands_between_the_readers_of_both_its_operands(b, p, u):
    def step(i, x, y):
        updated = update(x, y, i)
        return [updated, part_of(x, i) + y]

    return loop([b.sine(p), b.negate(u)], step)[1]


@rule(free=1, xla=2)
def a_carry_is_updated_in_place_with_what_was_read_of_it(b, p):
    def step(i, x):
        return [update(x, part_of(x, i) + 1.0, i)]

    return loop([b.sine(p)], step)[1]


@rule(free=2)
def a_product_cannot_be_written_over_its_operand(b, m):
    return loop([b.sine(m)], lambda i, x: [x @ x])[1]


@rule(free=2)
def a_reversal_cannot_be_written_over_its_operand(b, p):
    return loop([b.sine(p)], lambda i, x: [x.builder.reverse(x, [0])])[1]


@rule(free=1)
def a_reduction_frees_the_carry_for_its_broadcast(b, p):
    def step(i, x):
        return [x.builder.broadcast(x.builder.reshape(part_of(x, i), []), [4], [])]

    return loop([b.sine(p)], step)[1]


@rule(free=2)
def an_argument_that_leaves_a_loop_as_it_entered_is_copied_at_the_end(b, p, q):
    state = loop([b.sine(p), q], lambda i, x, y: [x * y, y])
    return b.tuple([state[1], state[2]])


# -- conditionals ------------------------------------------------------------------------------


@rule(free=0, xla=1)
def a_branch_may_overwrite_what_the_other_passes_on(b, p, q, c):
    return choose(c, [b.sine(p), b.cosine(q)], lambda x, y: [-x, y], lambda x, y: [x, y])


@rule(free=0, xla=1)
def a_branch_may_overwrite_what_only_the_other_reads(b, p, u, k, c):
    values = [b.sine(p), u, k]
    return choose(c, values, lambda x, y, i: [update(x, y, i)], lambda x, y, i: [-x])


@rule(free=1)
def a_branch_copies_what_it_overwrites_if_it_is_read_after_the_conditional(b, p, u, k, c):
    value = b.sine(p)
    chosen = choose(c, [value, u, k], lambda x, y, i: [update(x, y, i)], lambda x, y, i: [-x])
    return chosen[0] + value


@rule(free=1)
def a_branch_copies_a_constant_that_it_returns(b, p, c):
    return choose(c, [b.sine(p)], lambda x: [x.builder.op([1.0, 2.0, 3.0, 4.0])], lambda x: [-x])


@rule(free=1)
def a_branch_copies_an_argument_that_it_returns_unchanged(b, p, c):
    return choose(c, [p], lambda x: [x], lambda x: [-x])


@rule(free=1)
def a_branch_copies_a_value_that_it_returns_twice(b, p, c):
    return choose(
        c,
        [b.sine(p)],
        lambda x: [x.builder.cosine(x)] * 2,
        lambda x: [x.builder.negate(x), x.builder.tanh(x)],
    )


@rule(free=0)
def a_value_that_all_branches_pass_on_is_not_copied(b, p, q, c):
    chosen = choose(c, [b.sine(p), b.cosine(q)], lambda x, y: [-x, y], lambda x, y: [y * x, y])
    return chosen[0] + chosen[1]


@rule(free=3)
def branches_that_pass_on_two_values_the_other_way_round(b, p, q, c):
    chosen = choose(c, [b.sine(p), b.cosine(q)], lambda x, y: [x, y], lambda x, y: [y, x])
    return chosen[0] / chosen[1]


@rule(free=1, xla=3)
def a_choice_that_passes_a_carry_on_or_updates_it_is_in_place(b, p, u, c):
    def step(i, x, y, flag):
        chosen = choose(flag, [x, y, i], lambda v, w, j: [update(v, w, j)], lambda v, w, j: [v])
        return [chosen[0], y, flag]

    return loop([b.sine(p), u, c], step)[1]


@rule(free=1, xla=3)
def a_choice_between_two_next_values_is_made_before_the_counter_grows(b, p):
    def step(i, x):
        return [choose(i.lt(2), [x], lambda v: [v.builder.sine(v)], lambda v: [-v])[0]]

    return loop([b.sine(p)], step)[1]


# -- calls -------------------------------------------------------------------------------------


@rule(free=0)
def a_call_forwards_what_its_callee_returns(b, p):
    twice = b.sub_computation("twice", [VECTOR], lambda x: x.builder.sine(x.builder.sine(x)))
    return b.call([b.call([p], twice)], twice)


@rule(free=1)
def a_call_that_returns_its_operand_gives_one_value_two_places(b, p):
    same = b.sub_computation("same", [VECTOR], lambda x: x)
    value = b.sine(p)
    return b.tuple([b.call([value], same), value])


@rule(free=1)
def a_callee_copies_what_it_overwrites_if_a_caller_reads_it_afterwards(b, p, u, k):
    updated = b.sub_computation("updated", [VECTOR, PART, NUMBER], update)
    value = b.sine(p)
    return b.call([value, u, k], updated) - value


@rule(free=0)
def a_callee_overwrites_what_its_callers_hand_on(b, p, u, k):
    updated = b.sub_computation("updated", [VECTOR, PART, NUMBER], update)
    return b.call([b.call([b.sine(p), u, k], updated), u, k], updated)


@rule(free=1)
def a_loop_in_a_callee_of_two_sites_needs_one_counter(b, p):
    layer = b.sub_computation(
        "layer", [VECTOR], lambda v: loop([v], lambda i, x: [x.builder.sine(x)])[1]
    )
    return b.call([b.call([b.cosine(p)], layer)], layer)
