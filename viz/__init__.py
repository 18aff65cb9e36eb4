"""Pictures of graphs, policies, schedules and memory."""
