"""Queries at paces: each path of a query is flushed as often as its pace says, and all of them when the result is due."""
