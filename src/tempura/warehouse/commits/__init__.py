"""What is committed and never changed: manifests, numbered in ledgers, and what they ask of a file system."""
