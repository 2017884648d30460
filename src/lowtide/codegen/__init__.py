"""Code generation: from a scheduled module and its buffers to kernels in LLVM IR and thunks."""
