"""Warehouses: tables that fill up, queries over them, schedules, and the ledger of what was committed."""
