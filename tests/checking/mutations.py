"""Plans broken at random: what the plan verifier has to find."""

import random
from dataclasses import replace

from lowtide.ir import Opcode
from lowtide.ir.buffer import AllocationKind, BufferSlice

PASSED_ON = {
    Opcode.TUPLE, Opcode.GET_TUPLE_ELEMENT, Opcode.BITCAST, Opcode.OPTIMIZATION_BARRIER,
    Opcode.ADD_DEPENDENCY, Opcode.DOMAIN, Opcode.CALL, Opcode.WHILE, Opcode.ASYNC_START,
    Opcode.ASYNC_UPDATE, Opcode.ASYNC_DONE, Opcode.ALL_REDUCE_DONE, Opcode.COPY_DONE,
}  # fmt: skip

RENAMES = {Opcode.RESHAPE, Opcode.TRANSPOSE}
"""Operations that may be another name of their operand; then both have one place."""


def definitions_only(assignment):
    """The plan with places only where values are made, so that each has its place once."""
    sites = []
    for number, site in enumerate(assignment.call_sites):
        slices = {}
        for instruction, places in site.slices.items():
            if instruction.opcode in PASSED_ON or (
                instruction.opcode is Opcode.PARAMETER and number
            ):
                continue
            if instruction.opcode in RENAMES:
                (source,) = instruction.operands
                if site.slices.get(source) == places:
                    continue
            if instruction.opcode is Opcode.COPY_START:
                places = (places[0], None, *places[2:])
            slices[instruction] = places
        sites.append(replace(site, slices=slices))
    return replace(assignment, call_sites=tuple(sites), values=())


def definitions(assignment):
    """(site, instruction, leaf) of the values that the program writes."""
    found = []
    for number, site in enumerate(assignment.call_sites):
        for instruction, places in site.slices.items():
            if instruction.opcode in (Opcode.PARAMETER, Opcode.CONSTANT, Opcode.CONDITIONAL):
                continue
            for leaf, place in enumerate(places):
                if place is not None and place.nbytes:
                    found.append((number, instruction, leaf))
    return found


def place_of(assignment, position):
    site, instruction, leaf = position
    return assignment.call_sites[site].slices[instruction][leaf]


def moved(assignment, position, place):
    """The plan with one value elsewhere."""
    number, instruction, leaf = position
    site = assignment.call_sites[number]
    places = list(site.slices[instruction])
    places[leaf] = place
    slices = {**site.slices, instruction: tuple(places)}
    sites = list(assignment.call_sites)
    sites[number] = replace(site, slices=slices)
    return replace(assignment, call_sites=tuple(sites))


def shift(assignment, rng):
    """Shift a value within its allocation by a multiple of its alignment."""
    position = rng.choice(definitions(assignment))
    place = place_of(assignment, position)
    room = assignment.allocations[place.allocation].nbytes - place.nbytes
    step = min(place.nbytes & -place.nbytes, 64)
    offset = rng.randrange(0, room + 1, step)
    return moved(assignment, position, BufferSlice(place.allocation, offset, place.nbytes))


def elsewhere(assignment, rng):
    """Put a value into another allocation."""
    position = rng.choice(definitions(assignment))
    nbytes = place_of(assignment, position).nbytes
    fitting = [x for x in assignment.allocations if x.nbytes >= nbytes]
    return moved(assignment, position, BufferSlice(rng.choice(fitting).index, 0, nbytes))


def swap(assignment, rng):
    """Exchange the places of two values."""
    first, second = (rng.choice(definitions(assignment)) for _ in range(2))
    a, b = place_of(assignment, first), place_of(assignment, second)
    assignment = moved(assignment, first, BufferSlice(b.allocation, b.offset, a.nbytes))
    return moved(assignment, second, BufferSlice(a.allocation, a.offset, b.nbytes))


def shrink(assignment, rng):
    """Cut a value short, and move all that lies behind it in its allocation down."""
    position = rng.choice(definitions(assignment))
    place = place_of(assignment, position)
    unit = min(place.nbytes & -place.nbytes, 64)
    cut = rng.randrange(unit, place.nbytes + 1, unit)
    for other in definitions(assignment):
        there = place_of(assignment, other)
        if there.allocation == place.allocation and there.offset >= place.offset + place.nbytes:
            nearer = BufferSlice(there.allocation, there.offset - cut, there.nbytes)
            assignment = moved(assignment, other, nearer)
    return assignment


def drop_alias(assignment, rng):
    """Give an output that overwrites an argument a place of its own in the arena, or none."""
    aliased = [x for x in assignment.allocations if x.output is not None]
    arena = [x for x in assignment.allocations if x.kind is AllocationKind.ARENA and x.nbytes]
    if not aliased or not arena:
        return shift(assignment, rng)
    argument = rng.choice(aliased)
    allocations = list(assignment.allocations)
    allocations[argument.index] = replace(argument, output=None, maybe_live_out=False)
    return replace(assignment, allocations=tuple(allocations))


MUTATIONS = (shift, elsewhere, swap, shrink, drop_alias)


def mutated(assignment, seed):
    rng = random.Random(seed)
    return rng.choice(MUTATIONS)(assignment, rng)
