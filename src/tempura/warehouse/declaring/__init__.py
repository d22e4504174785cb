"""What is looked at, and written, when a table or a query is declared, changed, renamed or removed."""
