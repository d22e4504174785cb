"""Arrivals: what came into a table in one go, the files that hold it, and what is known of their rows."""
