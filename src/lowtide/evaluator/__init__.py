"""The reference interpreter in NumPy: slow, clear, the oracle of every numeric test."""

from lowtide.evaluator.evaluate import evaluate
from lowtide.evaluator.interpreter import Interpreter
from lowtide.evaluator.values import TOKEN, Token, Value, array_leaves, value_leaves

__all__ = ["TOKEN", "Interpreter", "Token", "Value", "array_leaves", "evaluate", "value_leaves"]
