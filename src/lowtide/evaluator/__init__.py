"""The reference interpreter in NumPy: slow, clear, the oracle of every numeric test."""

from typing import TYPE_CHECKING

from lowtide.records.late import late_names

if TYPE_CHECKING:
    from lowtide.evaluator.evaluate import evaluate
    from lowtide.evaluator.interpreter import Interpreter
    from lowtide.evaluator.values import TOKEN, Token, Value, array_leaves, value_leaves

__all__ = ["TOKEN", "Interpreter", "Token", "Value", "array_leaves", "evaluate", "value_leaves"]

if not TYPE_CHECKING:
    __getattr__ = late_names(
        __name__,
        {
            **dict.fromkeys(__all__, "values"),
            "Interpreter": "interpreter",
            "evaluate": "evaluate",
        },
    )
