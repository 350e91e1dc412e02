"""What to do next in a search: pure and deterministic, no clock, no I/O. `plan.next_steps` is the entry."""
