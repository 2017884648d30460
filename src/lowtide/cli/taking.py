"""Commands that take a record: its fields are the arguments and options of the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING
from functools import wraps
from inspect import Parameter, Signature
from typing import Any, Final, TypeVar, cast, get_type_hints

Given = TypeVar("Given")

EMPTY: Final = Parameter.empty


def taking(record: type[Given]) -> Callable[[Callable[[Given], None]], Callable[..., None]]:
    """Return a decorator of a function of one record, which makes a command of it.

    Each field is annotated as a parameter of a command is, in the order of the help.
    """
    hints = get_type_hints(record, include_extras=True)
    known = cast("type[Any]", record).__dataclass_fields__
    defaults = {name: x.default for name, x in known.items() if x.default is not MISSING}

    def decorated(run: Callable[[Given], None]) -> Callable[..., None]:
        @wraps(run)
        def command(**values: Any) -> None:
            run(record(**values))

        parameters = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=defaults.get(name, EMPTY), annotation=x)
            for name, x in hints.items()
        ]
        command.__dict__["__signature__"] = Signature(parameters)
        command.__annotations__ = hints
        return command

    return decorated
