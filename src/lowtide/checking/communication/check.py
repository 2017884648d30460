"""The check of one program, or one for each device, that all collectives come about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.checking.communication.events import DeviceEvents, Event
from lowtide.checking.communication.matching import (
    CollectiveMatching,
    CommunicationFault,
    signature,
)
from lowtide.checking.communication.participants import GroupError, Groups, groups_of
from lowtide.checking.communication.uniform import UniformValues
from lowtide.ir import Instruction, LowtideError, Module, Opcode
from lowtide.ops.backend_config import known_trip_count


@dataclass(frozen=True, slots=True)
class CommunicationCheck:
    """What was found in the programs of so many devices.

    `assumed` names the loops and conditionals around collectives of which nothing shows that all
    devices choose alike; `unchecked` the sends and receives, whose partners no module says.
    """

    devices: int
    collectives: int
    faults: tuple[CommunicationFault, ...]
    assumed: tuple[str, ...]
    unchecked: tuple[str, ...]

    @property
    def is_free_of_deadlock(self) -> bool:
        """Whether every device gets through, whatever the values are."""
        return not (self.faults or self.assumed or self.unchecked)


def check_communication(programs: Sequence[Module]) -> CommunicationCheck:
    """Return what is wrong with the collectives of a module, or of one module for each device.

    Raises LowtideError where there is neither one module nor one for each device.
    """
    module = programs[0]
    devices = module.replica_count * module.num_partitions
    if len(programs) not in (1, devices):
        raise LowtideError(
            f"{module.name} is for {devices} devices, found programs of {len(programs)}"
        )
    distinct = {id(x): DeviceEvents(x) for x in programs}
    assumed: dict[str, None] = {}
    faults: list[CommunicationFault] = []
    first = {id(x): i for i, x in reversed(list(enumerate(programs)))}
    for device in sorted(first.values()):
        program = programs[device]
        events = distinct[id(program)].events
        faults += _wrong_groups(device, events)
        assumed |= dict.fromkeys(_assumed(program, events))
    if len(distinct) > 1 and not faults:
        of_each = [distinct[id(x)].events for x in programs]
        matching = CollectiveMatching(of_each)
        matching.run()
        faults += matching.faults or _other_orders(of_each)
    return CommunicationCheck(
        devices,
        sum([x.joins for x in distinct[id(module)].events]),
        tuple(faults),
        tuple(assumed),
        tuple(dict.fromkeys([x.name for p in distinct.values() for x in p.unchecked])),
    )


def _wrong_groups(device: int, events: Sequence[Event]) -> list[CommunicationFault]:
    """Groups that cannot be, and sizes that are not those of the groups.

    Devices with the same program come to everything in the same order: where the groups are right
    and all choose alike, each collective has all of its members.
    """
    found = []
    for x in dict.fromkeys([event.collective for event in events]):
        try:
            words = _wrong_size(x, groups_of(x))
        except GroupError as error:
            words = str(error)
        if words:
            found.append(CommunicationFault(device, x.name, words))
    return found


def _wrong_size(x: Instruction, groups: Groups) -> str:
    """What is wrong with the sizes of results, for these groups of devices."""
    members = max(map(len, groups), default=0)
    if any(len(group) != members for group in groups):
        return "its groups are of different sizes" if x.opcode in _SIZED else ""
    factor = _SIZED.get(x.opcode)
    dimension = getattr(x.attributes, "dimension", None)
    if factor is None or dimension is None or x.shape.is_tuple:
        return ""
    given = x.operands[0].shape.dimensions[dimension]
    returned = x.shape.dimensions[dimension]
    whole, part = (returned, given) if factor > 0 else (given, returned)
    if whole == part * members:
        return ""
    return f"dimension {dimension} is {given} and becomes {returned} in groups of {members} devices"


_SIZED = {Opcode.ALL_GATHER: 1, Opcode.REDUCE_SCATTER: -1}
"""Whether the dimension grows by the size of the group, or shrinks."""


def _other_orders(programs: Sequence[Sequence[Event]]) -> list[CommunicationFault]:
    """Devices that come to collectives in another order than device 0.

    Only collectives that both take part in count, if not together. Where groups differ that may go
    well, but then a little more of waiting is a deadlock.
    """
    found = []
    joined = [[event.collective for event in x if event.joins] for x in programs]
    groups = {x: groups_of(x) for collectives in joined for x in collectives}
    said = {x: (*signature(x), groups[x]) for x in groups}
    members = {x: {y for group in of for y in group} for x, of in groups.items()}
    for device in range(1, len(programs)):
        both = {0, device}
        own, first = ([x for x in joined[i] if both <= members[x]] for i in (device, 0))
        for a, b in zip(own, first, strict=False):
            if said[a] != said[b]:
                words = f"comes where device 0 has %{b.name}: the order is not the same"
                found.append(CommunicationFault(device, a.name, words))
                break
    return found


def _assumed(module: Module, events: Sequence[Event]) -> list[str]:
    """Loops and conditionals around collectives of which nothing shows that all choose alike."""
    choices = dict.fromkeys([choice.instruction for x in events for choice in x.within])
    if not choices:
        return []
    values = UniformValues(module)
    return [
        x.name
        for x in choices
        if not (x.opcode is Opcode.WHILE and known_trip_count(x) is not None)
        and not values.chosen_alike(x)
    ]
