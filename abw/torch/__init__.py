"""abw with PyTorch: PyTorch's models run batched, and abw's models as layers.

    fast = abw.torch.batch(model)          # an nn.Module whose forward takes one instance
    outputs = fast(instances)

    layer = abw.torch.Layer("treelstm", dims={"hidden": 128})
    scores = layer(trees)["classes"]

Needs PyTorch.
"""

from abw.torch.batch import Batched, batch
from abw.torch.layer import Layer

__all__ = ["Batched", "Layer", "batch"]
