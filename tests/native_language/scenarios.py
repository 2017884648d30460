"""Small cases of the plugin's native code for the checker of interleavings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tests.native_language.interleavings import Thing, World
from tests.native_language.stepping import Steps

from lowtide.native import NativeFunction
from lowtide.pjrt import blocks
from lowtide.pjrt import native_events as events
from lowtide.pjrt import native_idle as idle
from lowtide.pjrt import native_objects as objects
from lowtide.pjrt import native_python as python
from lowtide.pjrt import native_queue as queues
from lowtide.runtime.devices import block
from lowtide.runtime.devices import native_rendezvous as rendezvous


@dataclass(frozen=True)
class Case:
    """What threads do, and what must hold where all of them have ended."""

    start: Callable[[World], None]
    check: Callable[[World], None]
    externals: Mapping[str, Callable[..., Any]] = field(default_factory=dict)


def _thing(world: World, name: str) -> Thing:
    (found,) = [x for x in world.things if x.name == name]
    return found


def in_turn(world: World, *calls: tuple[NativeFunction[..., Any], Any]) -> Callable[[], Steps]:
    """Return a function that makes calls one after the other."""

    def together() -> Steps:
        for function, *given in calls:
            yield from world.stepped.function(function)(*given)

    return together


# -- the queue: calls that are pushed while the worker takes, sleeps and is woken ----------------


def _queue(world: World, threads: int, each: int) -> None:
    queue = world.record("queue", blocks.Queue)
    launch = world.record("launch", blocks.Launch, is_shared=1)
    got = world.array("got", [None] * (threads * each))
    for thread in range(threads):
        jobs = [
            world.record(f"job{thread}{i}", blocks.QueuedCall, launch=launch, queue=queue)
            for i in range(each)
        ]
        world.start(in_turn(world, *[(queues.enqueue, queue, x) for x in jobs]))

    def worker() -> Steps:
        for number in range(threads * each):
            found = yield from world.stepped.function(queues.next_job)(queue, 1)
            yield ("set", got, number, found)

    world.start(worker)


def _all_in_order(world: World) -> None:
    """Each call came once, and those of a thread in its order."""
    names = [x.name for x in _thing(world, "got").values.values()]
    assert sorted(set(names)) == sorted(names) and len(names) == 2
    assert names == sorted(names) or names[0][3] != names[1][3]
    assert _thing(world, "queue").values["jobs"] == 2


QUEUE: Final = Case(lambda world: _queue(world, 1, 2), _all_in_order)
THREE: Final = Case(lambda world: _queue(world, 2, 1), _all_in_order)


# -- blocks: a buffer is deleted while others take and give back its storage ---------------------


def _blocks(world: World) -> None:
    parent = world.record("parent", blocks.BufferStorage, refs=1)
    storage = world.record("storage", blocks.BufferStorage, refs=1, parent=parent, data=64)
    cell = world.record("cell", blocks.HandleCell, of=storage)
    call = world.record("call", objects.CellCall, cell=cell)

    def share() -> Steps:
        found = yield from world.stepped.function(objects.borrow)(cell)
        if found is not None:
            yield ("get", found, "data")
            yield from world.stepped.function(objects.release_block)(found)

    world.start(share)
    world.start(objects.delete, call)
    world.start(objects.delete, call)


def _freed_once(world: World) -> None:
    assert sorted(world.freed) == ["parent", "storage"]


BLOCKS: Final = Case(_blocks, _freed_once)


def _held(world: World) -> None:
    """Two give the last references back; the worker of Python's takes what was destroyed."""
    queue = world.record("queue", blocks.Queue)
    size = objects.NUDGED_BYTES
    values = {"queue": queue, "held": blocks.HELD_STORAGE, "nbytes": size}
    for name in ("one", "other"):
        storage = world.record(name, blocks.BufferStorage, refs=1, **values)
        world.start(objects.release_block, storage)
    world.start(_sweeper(world, queue))


def _sweeper(world: World, queue: Thing) -> Callable[[], Steps]:
    def sweep() -> Steps:
        left = 2
        while left:
            yield from world.stepped.function(queues.next_job)(queue, 1)
            block = yield from world.stepped.function(python.take)()
            while block != 0:
                following = yield ("get", block, "next")
                yield ("call", objects.free, (block,))
                block, left = following, left - 1

    return sweep


def _both_freed(world: World) -> None:
    assert sorted(world.freed) == ["one", "other"]


HELD: Final = Case(_held, _both_freed)


# -- events: one happens while others wait, asleep or by a callback ------------------------------


def _event(world: World) -> None:
    event = world.record("event", blocks.PluginEvent, refs=3)
    told = world.array("told", [0])

    def answer(error: Any, given: Any) -> None:
        told.values[0] += 1

    call = world.record("call", events.EventCall, event=event, answer=answer)
    world.start(in_turn(world, (events.complete, event, None), (events.release, event)))
    world.start(in_turn(world, (events.wait_for, event), (events.release, event)))
    world.start(in_turn(world, (events.on_ready, call), (events.release, event)))


def _told_once(world: World) -> None:
    assert _thing(world, "told").values[0] == 1
    assert "event" in world.freed
    made = [x for x in world.things if x.record is blocks.Waiter]
    assert all(x.is_freed for x in made)


EVENT: Final = Case(_event, _told_once)


# -- homes: memory that waits is kept and found under a lock -------------------------------------


def _homes(world: World) -> None:
    queue = world.record("queue", blocks.Queue)
    first = world.record("first", blocks.WaitingHome)
    second = world.record("second", blocks.WaitingHome)
    found = world.array("found", [None])

    def find() -> Steps:
        home = yield from world.stepped.function(idle.find_home)(queue, 4096, 0)
        yield ("set", found, 0, home)

    world.start(idle.keep_home, queue, first, 8192, 0, 4096)
    world.start(idle.keep_home, queue, second, 8192, 0, 4096)
    world.start(find)


def _counted(world: World) -> None:
    queue = _thing(world, "queue")
    waiting, home = [], queue.values["homes"]
    while home is not None:
        waiting.append(home.name)
        home = home.values["next"]
    taken = _thing(world, "found").values[0]
    everything = [*waiting, *([] if taken is None else [taken.name])]
    assert sorted(everything) == ["first", "second"]
    assert queue.values["idle"] == 8192 * len(waiting)


HOMES: Final = Case(_homes, _counted, {"sched_yield": lambda: 0, "munmap": lambda *_: 0})


# -- the rendezvous: two devices meet, and one or both work on the buffers of both ---------------


def _rendezvous(world: World, divided: int) -> None:
    """Each device writes its buffer, meets the other, and reads its result, the sum of both."""
    home = world.record("rendezvous", block.RendezvousRecord, count=2, patience=1 << 60)
    collective = world.record("collective", block.CollectiveRecord, divided=divided)
    group = world.array("group", [2, 0, 1])
    buffers = [world.array(f"buffer{i}", [0, 0]) for i in range(2)]
    workspace = world.array("workspace", [0])
    participants, works = [], []
    for number in range(2):
        participants.append(
            world.record(
                f"participant{number}", block.ParticipantRecord, rendezvous=home, number=number
            )
        )
        runs = world.record(f"runs{number}", block.RunsRecord, count=number)
        works.append(world.record(f"work{number}", block.DeviceWork, group=group, runs=runs))

    def share(_: Thing, runs: Thing, *others: Any) -> Steps:
        number = yield ("get", runs, "count")
        one = yield ("get", buffers[0], 0)
        other = yield ("get", buffers[1], 0)
        yield ("set", buffers[number], 1, one + other)

    stepped = world.stepped
    stepped.give("share", share)
    stepped.give("participant_of", _answered(lambda _, number: participants[number]))
    stepped.give("work_of", _answered(lambda _, number: works[number]))
    stepped.give("workspace_from", _answered(lambda words, _: words))
    stepped.give("monotonic_time", _answered(lambda: 0))
    stepped.give("look", _answered(lambda *_: 0))

    def device(number: int) -> Callable[[], Steps]:
        def steps() -> Steps:
            state = world.record(f"state{number}", rendezvous.RunState)
            for turn in (1, 2):
                yield ("set", buffers[number], 0, turn * (number + 1))
                given = collective, workspace, participants[number], state
                ended = yield from stepped.function(rendezvous.run_collective)(*given)
                result = yield ("get", buffers[number], 1)
                assert (ended, result) == (0, 3 * turn), (number, turn, ended, result)

        return steps

    world.start(device(0))
    world.start(device(1))


def _answered(answer: Callable[..., Any]) -> Callable[..., Steps]:
    def steps(*given: Any) -> Steps:
        yield None  # type: ignore[misc]
        return answer(*given)

    return steps


def _nobody_waits(world: World) -> None:
    values = _thing(world, "rendezvous").values
    assert (values["waiting"], values["lock"], values["failed"]) == (0, 0, 0)


ALONE: Final = Case(lambda world: _rendezvous(world, 0), _nobody_waits)
SHARED: Final = Case(lambda world: _rendezvous(world, 1), _nobody_waits)
