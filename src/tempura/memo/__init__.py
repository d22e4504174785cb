"""WHAT is computed, whatever the time: classes of equal expressions."""
