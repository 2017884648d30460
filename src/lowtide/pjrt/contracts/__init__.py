"""The check of contracts: what JAX is told of programs, calls and arrays is what there is."""
