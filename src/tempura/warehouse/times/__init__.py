"""The times of runs: when they are due, what those before were, and what is expected to arrive between."""
