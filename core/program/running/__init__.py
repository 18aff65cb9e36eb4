"""Programs under way: fibers that wait, a mini-batch of them, how they end, whether all is right."""
