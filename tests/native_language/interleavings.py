"""A checker of native code: all interleavings of a few threads, each state once.

A step is an access to a field or an element, an operation of an atomic, or a call. What is read and
written plainly must be ordered by what threads see of one another (acquire and release); the
happens-before relation is kept as what each thread knows of the last accesses to each place, as in
Flanagan and Freund (2009), FastTrack. Stores that are not SEQ_CST wait in a buffer of their thread,
as in Owens, Sarkar and Sewell (2009), x86-TSO. A thread that sleeps is woken by nothing else than
what wakes it: no time is ever over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.native_language.stepping import Fault, Stepped, Steps

from lowtide.native import External, NativeFunction, NativeRecord
from lowtide.native import functions as primitives
from lowtide.native.functions import SharedRecord
from lowtide.native.kinds import AtomicKind, Int, ItemsKind, PlainKind, field_of, fields_of
from lowtide.native.records import Order

SEES: Final = (Order.ACQUIRE, Order.ACQ_REL, Order.SEQ_CST)
SHOWS: Final = (Order.RELEASE, Order.ACQ_REL, Order.SEQ_CST)

UNSET: Final = "nothing"


class RaceError(AssertionError):
    """An interleaving that must not be: what happened in it, step by step."""


class Thing:
    """A record in memory, or an array; it is named by who made it and how many came before."""

    def __init__(
        self, name: str, record: type[NativeRecord] | None, values: dict[Any, Any]
    ) -> None:
        self.name = name
        self.record = record
        self.values = values
        self.is_freed = False

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Cell:
    """An atomic in memory."""

    thing: Thing
    name: Any


@dataclass
class Thread:
    """A thread: its steps, what it yielded, what it knows, what it is to store, where it sleeps."""

    steps: Steps
    request: Any = None
    known: set[Any] = field(default_factory=set)
    buffer: list[tuple[Cell, Any, frozenset[Any]]] = field(default_factory=list)
    sleeps_at: Cell | None = None
    is_done: bool = False
    made: int = 0


class World:
    """Memory and threads; `externals` are functions of the process by name."""

    def __init__(self, stepped: Stepped, externals: Mapping[str, Callable[..., Any]]) -> None:
        self.stepped = stepped
        self.externals = dict(externals)
        self.things: list[Thing] = []
        self.threads: list[Thread] = []
        self.shared: dict[str, Thing] = {}
        self.events: set[Any] = set()
        """The accesses that not all threads know of."""
        self.views: dict[tuple[Thing, Any], frozenset[Any]] = {}
        self.trace: list[str] = []
        self.freed: list[str] = []

    # -- making --------------------------------------------------------------------------------

    def record(self, name: str, record: type[NativeRecord], **values: Any) -> Thing:
        """Return a record with zeros in all fields that are not given."""
        found = Thing(name, record, {})
        for one in fields_of(record):
            place = field_of(record, one)
            assert place is not None
            if isinstance(place.kind, ItemsKind) and place.is_inline:
                count = getattr(record, one).size // 8
                found.values[one] = self.array(f"{name}.{one}", [0] * count)
            else:
                is_number = one in values or not _is_pointer(place.kind)
                found.values[one] = values.get(one, 0) if is_number else None
        self.things.append(found)
        return found

    def array(self, name: str, values: Sequence[Any]) -> Thing:
        """Return an array."""
        found = Thing(name, None, dict(enumerate(values)))
        self.things.append(found)
        return found

    def start(self, function: Callable[..., Steps] | NativeFunction[..., Any], *given: Any) -> None:
        """Have a thread call a function."""
        made = self.stepped.function(function) if isinstance(function, NativeFunction) else function
        thread = Thread(made(*given))
        self.threads.append(thread)
        self._go_on(thread, None)

    # -- one step ------------------------------------------------------------------------------

    def choices(self) -> list[tuple[int, str]]:
        """Return what may happen next: a thread's step, or its oldest store.

        A plain access is the only choice: it commutes with all that others may do, or is found to
        race with them whichever comes first.
        """
        for number, thread in enumerate(self.threads):
            is_awake = thread.sleeps_at is None and not thread.is_done
            if is_awake and _is_plain(thread.request):
                return [(number, "step")]
        found = []
        for number, thread in enumerate(self.threads):
            if thread.buffer:
                found.append((number, "store"))
            if thread.sleeps_at is None and not thread.is_done:
                found.append((number, "step"))
        return found

    def is_forced(self, choice: tuple[int, str]) -> bool:
        """Return whether a choice is a plain access, which needs no look at the state."""
        return choice[1] == "step" and _is_plain(self.threads[choice[0]].request)

    def take(self, choice: tuple[int, str]) -> None:
        """Let one of them happen; raises RaceError."""
        number, what = choice
        thread = self.threads[number]
        if what == "store":
            self._write_oldest(thread)
        else:
            self.trace.append(f"{number}: {_told(thread.request)}")
            kind, *given = thread.request
            found = getattr(self, f"_{kind}")(number, thread, *given)
            if thread.sleeps_at is None:
                self._go_on(thread, found)

    def _go_on(self, thread: Thread, found: Any) -> None:
        """Run a thread up to its next step."""
        while True:
            try:
                request = thread.steps.send(found)
            except StopIteration:
                thread.is_done = True
                return
            if request is None:
                found = None
                continue
            place = self._place_of(request)
            if place is None:
                thread.request = request
                return
            found = place

    def _place_of(self, request: Any) -> Any:
        """What needs no step: the place of an atomic, an array that lies within a record."""
        if request[0] == "call" and request[1] in (primitives.at, primitives.array_at):
            return request[2][1]
        if request[0] == "call" and request[1] is primitives.address_of:
            return request[2][0]
        if request[0] == "call" and request[1] is primitives.the:
            return self._the(request[2][0])
        if request[0] != "get" or not isinstance(request[1], Thing):
            return None
        _, thing, name = request
        if thing.record is None:
            return Cell(thing, name) if thing.name.endswith((".frames", ".hollow")) else None
        place = field_of(thing.record, name)
        if place is None:
            return None
        if isinstance(place.kind, AtomicKind):
            return Cell(thing, name)
        return thing.values[name] if place.is_inline else None

    def _the(self, one: SharedRecord[Any]) -> Thing:
        name = one.record.__name__
        if name not in self.shared:
            self.shared[name] = self.record(name, one.record)
        return self.shared[name]

    # -- plain memory --------------------------------------------------------------------------

    def fail(self, problem: str) -> RaceError:
        """Return the error for a problem, with the last steps."""
        return RaceError("\n".join([problem, *self.trace[-40:]]))

    def _alive(self, thing: Any) -> Thing:
        if not isinstance(thing, Thing):
            raise self.fail(f"{thing!r} is read as memory")
        if thing.is_freed:
            raise self.fail(f"{thing} is used after it was freed")
        return thing

    def _get(self, number: int, thread: Thread, thing: Any, name: Any) -> Any:
        values = self._alive(thing).values
        if name not in values:
            raise self.fail(f"{thing} has no {name}")
        if values[name] is UNSET:
            raise self.fail(f"{thing}.{name} is read before it is set")
        self._need(thread, ("w", thing, name), f"{thing}.{name} is read while it is written")
        self._note(thread, ("r", thing, name, number))
        return values[name]

    def _set(self, number: int, thread: Thread, thing: Any, name: Any, value: Any) -> None:
        values = self._alive(thing).values
        for token in [x for x in self.events if x[1] is thing and x[2] == name]:
            self._need(thread, token, f"{thing}.{name} is written while others use it")
            self._forget(token)
        values[name] = value
        self._note(thread, ("w", thing, name))

    def _need(self, thread: Thread, token: Any, problem: str) -> None:
        if token in self.events and token not in thread.known:
            raise self.fail(problem)

    def _note(self, thread: Thread, token: Any) -> None:
        self._forget(token)
        self.events.add(token)
        thread.known.add(token)

    def _forget(self, token: Any) -> None:
        if token in self.events:
            self.events.discard(token)
            for place in [x for x, view in self.views.items() if token in view]:
                self.views[place] -= {token}
            for thread in self.threads:
                thread.known.discard(token)
                thread.buffer = [(x, y, view - {token}) for x, y, view in thread.buffer]

    # -- atomics -------------------------------------------------------------------------------

    def _atomic(self, number: int, thread: Thread, place: Any, what: str, *given: Any) -> Any:
        if not isinstance(place, Cell):
            raise self.fail(f"{place!r} is no atomic")
        thing, (*values, order) = self._alive(place.thing), given
        if what == "load":
            found = self._seen(thread, place)
            if order in SEES:
                thread.known |= self._view(thread, place)
            self._note(thread, ("a", thing, place.name, number))
            return found
        if what == "store":
            self._note(thread, ("a", thing, place.name, number))
            view = frozenset(thread.known) if order in SHOWS else frozenset()
            thread.buffer.append((place, values[0], view))
            if order is Order.SEQ_CST:
                self._write_all(thread)
            return None
        self._write_all(thread)
        old = thing.values[place.name]
        new = _changed(what, old, values)
        if order in SEES:
            thread.known |= self._view(thread, place)
        self._note(thread, ("a", thing, place.name, number))
        if what != "compare_exchange" or old is values[0] or old == values[0]:
            thing.values[place.name] = new
            if order in SHOWS:
                self.views[thing, place.name] = self._view(thread, place) | thread.known
        return old

    def _seen(self, thread: Thread, place: Cell) -> Any:
        own = [value for where, value, _ in thread.buffer if where == place]
        return own[-1] if own else place.thing.values[place.name]

    def _view(self, thread: Thread, place: Cell) -> frozenset[Any]:
        return self.views.get((place.thing, place.name), frozenset()) & self.events

    def _write_all(self, thread: Thread) -> None:
        while thread.buffer:
            self._write_oldest(thread)

    def _write_oldest(self, thread: Thread) -> None:
        place, value, view = thread.buffer.pop(0)
        self._alive(place.thing).values[place.name] = value
        self.views[place.thing, place.name] = view

    # -- calls ---------------------------------------------------------------------------------

    def _call(self, number: int, thread: Thread, callee: Any, given: tuple[Any, ...]) -> Any:
        if isinstance(callee, External):
            return self.externals[callee.name](*given)
        if callee in (primitives.new, primitives.on_stack):
            thread.made += 1
            made = self.record(f"{number}.{thread.made}", given[0])
            made.values.update({x: UNSET for x, y in made.values.items() if not _is_thing(y)})
            return made
        if callee is primitives.free:
            return self._freed(thread, given[0]) if given[0] else None
        if callee is primitives.futex_wait:
            return self._sleep(thread, *given)
        if callee is primitives.futex_wake:
            return self._wake(thread, *given)
        if callee in (primitives.at, primitives.array_at, primitives.address_of):
            return given[-1]
        if callable(callee):
            return callee(*given)
        raise self.fail(f"nobody knows what {callee!r} does")

    def _freed(self, thread: Thread, thing: Thing) -> None:
        if self._alive(thing).values.get("is_static"):
            raise self.fail(f"{thing} is no memory to free")
        for token in [x for x in self.events if x[1] is thing]:
            self._need(thread, token, f"{thing} is freed while others use it")
            self._forget(token)
        thing.is_freed = True
        self.freed.append(thing.name)

    def _sleep(self, thread: Thread, word: Cell, value: int, _: Any = 0) -> None:
        self._write_all(thread)
        if self._alive(word.thing).values[word.name] & 0xFFFFFFFF == value & 0xFFFFFFFF:
            thread.sleeps_at = word

    def _wake(self, thread: Thread, word: Cell, count: int) -> None:
        self._write_all(thread)
        for sleeper in [x for x in self.threads if x.sleeps_at == word][:count]:
            sleeper.sleeps_at = None
            self._go_on(sleeper, 0)

    # -- the state -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Forget accesses that all threads know of."""
        everybody = [x.known for x in self.threads if not x.is_done]
        if everybody:
            for token in set.intersection(*everybody, self.events):
                self._forget(token)

    def key(self) -> Any:
        """Return what decides about all that may still happen."""
        memory = [
            (x.name, x.is_freed or tuple(map(_frozen, x.values.values()))) for x in self.things
        ]
        views = [
            ((thing.name, name), _names(view & self.events))
            for (thing, name), view in self.views.items()
            if view & self.events
        ]
        threads = [
            (
                _standing(x.steps),
                _names(x.known),
                tuple([(_frozen(y), _frozen(z), _names(v & self.events)) for y, z, v in x.buffer]),
                _frozen(x.sleeps_at),
            )
            for x in self.threads
        ]
        known = _names(self.events)
        return frozenset(memory), frozenset(views), tuple(threads), known


def _is_plain(request: Any) -> bool:
    if request[0] == "call":
        return request[1] not in (primitives.futex_wait, primitives.futex_wake)
    return request[0] != "atomic"


def _changed(what: str, old: Any, values: Sequence[Any]) -> Any:
    if what == "add":
        return old + values[0]
    if what == "raise_to":
        return max(old, values[0])
    return values[-1]


def _is_pointer(kind: Any) -> bool:
    inner = kind.of if isinstance(kind, AtomicKind) else kind
    return not isinstance(inner, Int | PlainKind)


def _is_thing(value: Any) -> bool:
    return isinstance(value, Thing)


def _names(tokens: Any) -> frozenset[Any]:
    return frozenset([(x[0], x[1].name, *x[2:]) for x in tokens])


def _frozen(value: Any) -> Any:
    if isinstance(value, Thing):
        return ("thing", value.name)
    if isinstance(value, Cell):
        return ("cell", value.thing.name, value.name)
    if isinstance(value, int | str | bool) or value is None:
        return value
    if isinstance(value, tuple | list):
        return tuple(map(_frozen, value))
    return getattr(value, "name", None) or getattr(value, "__name__", type(value).__name__)


def _standing(steps: Any) -> Any:
    """Where a generator stands, and the ones that it waits for."""
    found = []
    while steps is not None and getattr(steps, "gi_frame", None) is not None:
        frame = steps.gi_frame
        names = [(x, _frozen(y)) for x, y in frame.f_locals.items()]
        found.append((frame.f_code.co_name, frame.f_lasti, tuple(names)))
        steps = steps.gi_yieldfrom
    return tuple(found)


def _told(request: Any) -> str:
    kind, *given = request
    if kind == "call":
        return f"{getattr(given[0], 'name', getattr(given[0], '__name__', '?'))}{given[1]}"
    if kind == "atomic":
        place, what, *values = given
        order = values.pop()
        return f"{place.thing}.{place.name}.{what}({values}, {order.name})"
    return f"{kind} {'.'.join(map(str, given))}"


@dataclass(frozen=True)
class Found:
    """How many states there are from which several ways lead, or none, and steps between them."""

    states: int
    steps: int


def explore(
    scenario: Callable[[World], None],
    check: Callable[[World], None],
    faults: Mapping[str, Fault] | None = None,
    externals: Mapping[str, Callable[..., Any]] | None = None,
    most: int = 400_000,
) -> Found:
    """Visit all states that a scenario may come to; raises RaceError for one that must not be.

    `check` looks at worlds whose threads all have ended.
    """
    stepped = Stepped(faults or {})
    visited: set[int] = set()
    waiting: list[list[tuple[int, str]]] = [[]]
    steps = 0
    while waiting:
        path = waiting.pop()
        world = World(stepped, externals or {})
        scenario(world)
        for choice in path:
            world.take(choice)
            world.settle()
        while True:
            world.settle()
            choices = world.choices()
            if len(choices) != 1 or not world.is_forced(choices[0]):
                key = hash(world.key())
                if key in visited:
                    break
                visited.add(key)
                if len(visited) > most:
                    raise AssertionError(f"more than {most} states")
            if not choices:
                _ended(world, check)
                break
            waiting += [[*path, x] for x in choices[1:]]
            path = [*path, choices[0]]
            steps += len(choices)
            world.take(choices[0])
    return Found(len(visited), steps)


def _ended(world: World, check: Callable[[World], None]) -> None:
    stuck = [number for number, x in enumerate(world.threads) if not x.is_done]
    if stuck:
        raise world.fail(f"threads {stuck} sleep for ever")
    check(world)
