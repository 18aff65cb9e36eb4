"""The TreeLSTM in PyTorch and in libraries that batch it, each through its own public interface."""
