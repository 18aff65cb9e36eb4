"""From YAML to numbers: specs, data, graphs, policies, plans, executors."""
