"""Training: derivatives of cells, and graphs of mini-batches with their backward pass.

Once a model: `training_network(network, ["classes"])`; the executor is prepared for `training.network` with
the model's own parameters. A mini-batch: `training_graph(training, graph, {"classes": gradient})`, then
`plan(made.graph, training_schedule(made, schedule))`, run; `Executor.gradient` makes the gradient of it.

The gradient of an output is (m, *shape) in single precision, in the order of `graph.results`. For faster
kernels: `training.cells[t].terms` say what to sum; `made.constant` and `made.constant_gradient` which rows of
tables get which addends; `param_gradients` what is left of it.
"""
