"""The interface of a pass: a function over a module, with a name, options and an example."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Final, TypeAlias, final

from lowtide.ir import LowtideError, Module
from lowtide.passes.needs import Needs
from lowtide.records import dataclass
from lowtide.suggestions import nearest

OptionValue: TypeAlias = bool | int | float | str


class PassError(LowtideError):
    """A pass or an option that is not known, or a value that the option does not take."""


@final
class LatePass:
    """The function of a pass that is loaded when it is first called.

    It `takes` arguments of those names, and calls the pass with those that were `given`.
    """

    def __init__(
        self,
        load: Callable[[], Pass],
        takes: frozenset[str] = frozenset(),
        given: tuple[tuple[str, object], ...] = (),
    ) -> None:
        self._load = load
        self._given = given
        self.takes = takes

    def __call__(self, module: Module, **options: OptionValue) -> int:
        """Run the pass."""
        return int(self._load().told(dict(self._given)).function(module, **options))

    def told(self, given: Mapping[str, object]) -> LatePass:
        """Return the same with arguments."""
        return LatePass(self._load, self.takes, (*self._given, *given.items()))


@dataclass(frozen=True, slots=True)
class Pass:
    """A rewrite of a module.

    `function` changes the module in place and returns how many changes it made, or whether it made
    any; its keyword-only parameters are the options of the pass, and `meanings` says for each what
    it means. `before` and `after` are HLO text that shows what the pass does; `example` makes them
    of one text, and the tests run them. Where the result is long `after` is empty, and tests have
    it.
    In a module that lacks what it `needs`, a pipeline leaves it out.
    """

    name: str
    function: Callable[..., int]
    sentence: str
    before: str
    after: str = ""
    options: tuple[tuple[str, OptionValue], ...] = ()
    meanings: tuple[tuple[str, str], ...] = ()
    needs: Needs = ()

    def run(self, module: Module) -> int:
        """Change the module; return the number of changes, 0 if it is as it was."""
        return int(self.function(module, **dict(self.options)))

    @property
    def defaults(self) -> Mapping[str, OptionValue]:
        """The options with their default values."""
        parameters = _parameters(self.function).values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    def check_options(self) -> None:
        """Raise PassError for an option whose default is none of the values that there can be."""
        for name, default in self.defaults.items():
            if type(default) not in _KINDS:
                kinds = ", ".join(_KINDS.values())
                raise PassError(f"option {name} has a default that is none of: {kinds}")

    def with_options(self, **values: OptionValue) -> Pass:
        """Return the same pass with other values of options.

        Raises PassError for an unknown option and for a value of another type than the default.
        """
        defaults = self.defaults
        for name, value in values.items():
            if name not in defaults:
                known = ", ".join(defaults) or "none"
                raise PassError(
                    f"pass {self.name} has no option {name!r}; there are: {known}"
                    f"{nearest(name, defaults)}"
                )
            kind = type(defaults[name])
            if type(value) is not kind:
                raise PassError(
                    f"option {name} of pass {self.name} takes {_KINDS[kind]}, found {value!r}"
                )
        return replace(self, options=tuple({**dict(self.options), **values}.items()))

    def told(self, given: Mapping[str, object]) -> Pass:
        """Return the same pass with those of the arguments given that its function takes.

        They are what no option can say, such as a function of a stage that passes do not know.
        """
        late = self.function if isinstance(self.function, LatePass) else None
        takes = _parameters(self.function) if late is None else late.takes
        known = {name: value for name, value in given.items() if name in takes}
        if not known:
            return self
        told = partial(self.function, **known) if late is None else late.told(known)
        return replace(self, function=told)

    def __str__(self) -> str:
        """Return the pass as `name{k=v,...}`, which `parse_passes` reads."""
        if not self.options:
            return self.name
        return f"{self.name}{{{','.join([f'{k}={value_text(v)}' for k, v in self.options])}}}"


def example(text: str) -> tuple[str, str]:
    """Return HLO before and after a pass from one text that shows what changes.

    Lines that go begin with "-", those that come with "+"; where a line is indented the sign stands
    in place of its first space.
    """
    before: list[str] = []
    after: list[str] = []
    for line in text.split("\n"):
        sign, rest = line[:1], line[1:]
        if sign in ("-", "+"):
            one = before if sign == "-" else after
            one.append(f" {rest}" if rest.startswith(" ") else rest)
        else:
            before.append(line)
            after.append(line)
    return "\n".join(before), "\n".join(after)


@cache
def _parameters(function: Callable[..., int]) -> Mapping[str, inspect.Parameter]:
    """The parameters of a pass by name; to look them up takes longer than many a pass runs."""
    return inspect.signature(function).parameters


_KINDS: Final[dict[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a word",
}


def value_text(value: OptionValue) -> str:
    """Return the value of an option as one writes it in a list of passes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
