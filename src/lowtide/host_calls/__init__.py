"""Calls of programs to functions of this process: Python's, and foreign ones that are registered.

A custom call names such a function by its target and its configuration. Whoever runs the program,
native code or the evaluator, finds the function here and calls it on addresses or on arrays.
"""
