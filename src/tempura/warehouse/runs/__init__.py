"""One run of a query: what it finds, the plan, the step, the commit, the published result, the report."""
