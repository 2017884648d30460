"""Symbolic execution of framework graphs: a table of op kernels, and the walk that runs them.

Each node's kernel runs once, in topological order, on expressions in place of tensors, and builds
operations of HLO. `frontend/onnx` and `frontend/tensorflow` have the kernels, and read the nodes.
A name is loaded when it is first asked for.
"""
