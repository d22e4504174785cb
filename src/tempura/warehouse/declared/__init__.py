"""What a user declares of tables and queries, and ``tempura.toml``, which holds it."""
