"""Random tensors that share objects, an independent check of plans, and the best by trial."""

import random

from hypothesis import strategies as st

from lowtide.planning.plans import CliqueBound, DualBound
from lowtide.planning.problem import TensorUsageRecord


@st.composite
def tensors(draw, most=12, largest=40):
    """Draw records of some bytes in order of first task."""
    rows = draw(
        st.lists(
            st.tuples(st.integers(0, largest), st.integers(0, 8), st.integers(0, 4)), max_size=most
        )
    )
    return in_order([TensorUsageRecord(size, first, first + more) for size, first, more in rows])


def random_tensors(seed, count, tasks=10, life=3, largest=1000):
    """Return records in order of first task; sizes are spread evenly over their logarithms."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        first = draw.randrange(tasks)
        size = int(largest ** draw.random())
        rows.append(TensorUsageRecord(size, first, first + int(draw.expovariate(1 / life))))
    return in_order(rows)


def in_order(records):
    return sorted(records, key=lambda record: record.first_task)


def overlap(a, b):
    return a.first_task <= b.last_task and b.first_task <= a.last_task


def check_plan(records, plan):
    """Fail where tensors in one object live together, or an object has not its largest size."""
    assert len(plan.object_ids) == len(records)
    members = [[] for _ in plan.object_sizes]
    for record, target in zip(records, plan.object_ids, strict=True):
        assert not any(overlap(record, other) for other in members[target])
        members[target].append(record)
    for inside, size in zip(members, plan.object_sizes, strict=True):
        assert inside
        assert size == max(record.size for record in inside)


def least_total(records):
    """Return the least bytes of objects, by trying all ways to share them."""
    best = sum(record.size for record in records)

    def go(index, objects, total):
        nonlocal best
        if total >= best:
            return
        if index == len(records):
            best = total
            return
        record = records[index]
        for members in objects:
            if not any(overlap(record, other) for other in members):
                before = max(other.size for other in members)
                members.append(record)
                go(index + 1, objects, total + max(0, record.size - before))
                members.pop()
        objects.append([record])
        go(index + 1, objects, total + record.size)
        objects.pop()

    # the largest first: then no object grows, and totals are known early
    records = sorted(records, key=lambda record: -record.size)
    go(0, [], 0)
    return best


def proved(records, evidence):
    """Return the bytes that evidence proves; fail where it is wrong."""
    if isinstance(evidence, CliqueBound):
        for count, (task, size) in enumerate(zip(evidence.tasks, evidence.sizes, strict=True), 1):
            alive = [r for r in records if r.first_task <= task <= r.last_task and r.size >= size]
            assert len(alive) >= count
        return sum(evidence.sizes)
    assert isinstance(evidence, DualBound)
    assert evidence.denominator > 0
    assert min(evidence.prices, default=0) >= 0
    for size in {record.size for record in records}:
        assert dearest_alone(records, evidence.prices, size) <= size * evidence.denominator
    return -(-sum(evidence.prices) // evidence.denominator)


def dearest_alone(records, prices, size):
    """Return the highest price of tensors up to a size that never live together, task by task."""
    last = max(record.last_task for record in records)
    best = [0] * (last + 2)
    for task in range(last + 1):
        best[task + 1] = best[task]
        for record, price in zip(records, prices, strict=True):
            if record.last_task == task and record.size <= size:
                best[task + 1] = max(best[task + 1], best[record.first_task] + price)
    return best[last + 1]
