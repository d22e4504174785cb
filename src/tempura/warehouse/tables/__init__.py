"""Tables as they fill up, and what the planner is told of them."""
