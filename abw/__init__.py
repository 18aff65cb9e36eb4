"""abw, the auto-batching workbench: mini-batches of dynamic neural networks, batched by themselves."""

__version__ = "0.1.0"
