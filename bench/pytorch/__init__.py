"""Models in PyTorch, DGL and TorchFold, as their users batch them: what abw is compared with."""
