"""Records of `lowtide.records`, held against data classes of the standard library."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import FrozenInstanceError, field, fields, replace
from typing import Any, ClassVar

import pytest

from lowtide.records import dataclass, is_frozen, record


@dataclass(frozen=True, slots=True)
class Kept:
    """A small record."""

    name: str
    sizes: tuple[int, ...] = ()


def pair(**how: Any) -> tuple[Any, Any]:
    """Return one class by both decorators."""

    def make(decorate: Any) -> Any:
        @decorate(**how)
        class Point:
            x: int
            y: str = "a"
            z: list[int] = field(default_factory=list, compare=False)
            hidden: int = field(default=3, repr=False, hash=False)
            late: int = field(init=False, default=7)
            shared: ClassVar[int] = 5

            def __post_init__(self) -> None:
                self.z.append(self.x)

        return Point

    return make(dataclass), make(dataclasses.dataclass)


HOWS = [
    {"frozen": frozen, "eq": eq, "slots": slots}
    for frozen in (False, True)
    for eq in (False, True)
    for slots in (False, True)
]


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_behaves_as_the_standard_library_has_it(how: dict[str, bool]) -> None:
    ours, theirs = pair(**how)
    for cls in (ours, theirs):
        assert [x.name for x in fields(cls)] == ["x", "y", "z", "hidden", "late"]
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((1,), {}),
        ((1, "b"), {"z": [4]}),
        ((), {"x": 2, "hidden": 9}),
    ]
    for given, named in calls:
        a, b = (cls(*given, **named) for cls in (ours, theirs))
        assert repr(a) == repr(b)
        assert dataclasses.asdict(a) == dataclasses.asdict(b)
        other, same = (cls(*given, **named) for cls in (ours, theirs))
        assert (a == other) == (b == same) == how["eq"]
        assert (a == replace(a, x=40)) == (b == replace(b, x=40)) == False  # noqa: E712
        assert a.__eq__(0) is NotImplemented or not how["eq"]
        if how["eq"] and not how["frozen"]:
            for x in (a, b):
                with pytest.raises(TypeError, match="unhashable"):
                    hash(x)
        elif how["eq"]:
            assert hash(a) == hash(b) == hash(other)
        else:
            assert hash(a) != hash(other)
        assert dataclasses.asdict(copy.copy(a)) == dataclasses.asdict(a)
    for cls in (ours, theirs):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            cls()


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_what_can_be_read_of_a_class_is_as_in_the_standard_library(how: dict[str, bool]) -> None:
    ours, theirs = pair(**how)
    names = ("name", "type", "default", "default_factory", "init", "repr", "hash", "compare")
    for name in (*names, "kw_only", "metadata"):
        one, other = ([getattr(x, name) for x in fields(cls)] for cls in (ours, theirs))
        assert one == other
    for name in ("__match_args__", "__slots__", "__qualname__", "__module__", "__doc__"):
        assert ours.__dict__.get(name, "") == theirs.__dict__.get(name, "") or name == "__doc__"
    for name in ("y", "z", "hidden", "late", "shared"):
        assert hasattr(ours, name) == hasattr(theirs, name)
    assert ours.shared == 5


def test_a_class_that_says_nothing_special_is_made_without_the_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**how: Any) -> Any:
        raise AssertionError("it takes longer")

    monkeypatch.setattr(dataclasses, "dataclass", refuse)

    @dataclass(frozen=True, slots=True)
    class Plain:
        x: int
        y: list[int] = field(default_factory=list, compare=False)

    @dataclass(frozen=True, eq=False)
    class Open(Plain):
        z: str = "a"

    assert Plain(1).y == []
    assert [x.name for x in fields(Open(1))] == ["x", "y", "z"]
    assert Open.z == "a"
    assert Plain.__slots__ == ("x", "y")
    assert isinstance(Plain(1), Plain)


def test_a_default_that_can_change_is_refused() -> None:
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass
        class Shared:
            x: list[int] = []  # noqa: RUF012


@pytest.mark.parametrize("given", [(), (1, "a", [], 3, 4), (1, 2, 3, 4)], ids=len)
@pytest.mark.parametrize("named", [{}, {"x": 1}, {"z": [2], "x": 3}, {"late": 1}, {"no": 1}])
@pytest.mark.parametrize("count", [1, 2 * record._FEW])
def test_arguments_that_do_not_fit_are_refused(
    given: tuple[Any, ...], named: dict[str, Any], count: int
) -> None:
    """The first values are made in another way than the many."""

    def outcome(cls: Any) -> str:
        try:
            fresh = {k: list(x) if isinstance(x, list) else x for k, x in named.items()}
            return repr(cls(*[list(x) if isinstance(x, list) else x for x in given], **fresh))
        except (TypeError, AttributeError) as error:
            return str(error)

    ours, theirs = pair(frozen=True, slots=True)
    for _ in range(count):
        ours(1)
    assert outcome(ours) == outcome(theirs)


def test_frozen_records_refuse_changes() -> None:
    point = Kept("a")
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        point.name = "b"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del point.name  # type: ignore[misc]
    assert copy.copy(point) == point


def test_methods_of_a_class_stay() -> None:
    @dataclass(frozen=True, slots=True)
    class Own:
        x: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return False

        def __hash__(self) -> int:
            return 1

    assert repr(Own(1)) == "own"
    assert Own(1) != Own(1)
    assert hash(Own(1)) == 1


def test_a_record_inherits_fields() -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        x: int

    @dataclass(frozen=True, slots=True)
    class More(Base):
        y: int = 2

    class Free(More):
        extra: int

    assert repr(More(1)) == "test_a_record_inherits_fields.<locals>.More(x=1, y=2)"
    assert More(1) != Base(1)
    free = Free(3, 4)
    free.extra = 5
    assert (free.x, free.y, free.extra) == (3, 4, 5)
    with pytest.raises(FrozenInstanceError):
        free.x = 6  # type: ignore[misc]


def test_many_values_fill_slots_of_their_own_class_and_of_bases() -> None:
    @dataclass(frozen=True, slots=True)
    class Base:
        x: int
        set_x: str = "a"

    @dataclass(frozen=True, slots=True)
    class More(Base):
        y: int = 2

    class Other(More):
        __slots__ = ()

    for number in range(3 * record._FEW):
        assert [getattr(More(number, y=7), x.name) for x in fields(More)] == [number, "a", 7]
        assert (Base(1, "b").set_x, Other(number, "c").x) == ("b", number)
    with pytest.raises(FrozenInstanceError):
        More(1).y = 6  # type: ignore[misc]


def test_defining_a_record_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def counted(head: str, lines: list[str], known: dict[str, Any]) -> Any:
        made.append(head)
        return compiled(head, lines, known)

    compiled = record._compiled
    monkeypatch.setattr(record, "_compiled", counted)
    ours, _ = pair(frozen=True, slots=True)
    few = [ours(x) for x in range(record._FEW)]
    assert made == []
    many = [ours(x) for x in range(100)]
    assert len(made) == 1
    assert many[: len(few)] == few
    assert len(made) == 1
    for _ in range(record._FEW):
        assert many[0] == few[0]
    assert len(made) == 2


def test_fields_are_found_by_their_own_names() -> None:
    """Methods have names of their own beside those of fields."""

    @dataclass(frozen=True, slots=True)
    class One:
        n1: int
        f0: int
        other: int = 3
        made0: tuple[int, ...] = field(default_factory=tuple)
        n0: int = 5

    @dataclass
    class Two:
        f1: int
        n0: int
        set_: int = 4

    @dataclass(frozen=True)
    class Three:
        name1: int
        n0: int

    assert repr(One(1, n0=2, f0=7)).endswith("One(n1=1, f0=7, other=3, made0=(), n0=2)")
    assert repr(Two(n0=1, f1=2)).endswith("Two(f1=2, n0=1, set_=4)")
    assert repr(Three(1, n0=2)).endswith("Three(name1=1, n0=2)")
    assert One(1, 2) == One(1, 2) != One(1, 2, n0=6)
    assert hash(One(1, 2)) == hash((1, 2, 3, (), 5))
    with pytest.raises(TypeError, match="unexpected keyword argument 'f1'"):
        One(1, f1=2)  # type: ignore[call-arg]


@pytest.mark.parametrize("how", HOWS, ids=str)
def test_whether_a_class_is_frozen(how: dict[str, bool]) -> None:
    assert [is_frozen(x) for x in pair(**how)] == [how["frozen"]] * 2


def test_what_records_cannot_have_is_refused() -> None:
    with pytest.raises(TypeError, match="has a field by keyword only"):

        @dataclass(frozen=True)
        class Named:
            x: int = field(kw_only=True)

    with pytest.raises(TypeError, match="is frozen and defines __setattr__"):

        @dataclass(frozen=True)
        class Changing:
            x: int

            def __setattr__(self, name: str, value: object) -> None: ...
