"""LLVM as a library: functions written as text, target machines, compiling, linking, a cache."""
