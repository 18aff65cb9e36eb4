"""The executor `cpu`: one fused kernel a cell, as LLVM IR, over packed weights."""
