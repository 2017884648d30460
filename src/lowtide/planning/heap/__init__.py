"""Heap simulation: offsets for buffers that come and go, from a list of events.

The algorithms are those of XLA's heap simulator, today's and those of TensorFlow 1.14. Each is a
function from events to a `HeapLayout`; `simulate` takes them by name.
"""
