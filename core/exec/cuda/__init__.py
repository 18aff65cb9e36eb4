"""The executor `cuda`: fused kernels through numba.cuda, one launch a batch or one for a whole plan."""
