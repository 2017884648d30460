"""TFLite models that run in native code, in the way of TFLite's own interpreter."""

from lowtide.tflite.interpreter import LiteInterpreter as Interpreter

__all__ = ["Interpreter"]
