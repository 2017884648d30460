"""The reference interpreter in NumPy: slow, clear, the oracle of every numeric test."""

from lowtide.evaluator.evaluate import evaluate
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.values import TOKEN, Token, Value, value_leaves

__all__ = ["TOKEN", "Interpreter", "Token", "Value", "evaluate", "value_leaves"]
