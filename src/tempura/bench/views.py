"""Queries over TPC-H's tables that give rows rather than totals: what a warehouse keeps for others to read. The suites' own queries
give few rows, so what it takes to write a result hardly counts in them."""

VIEWS = {
    # Lines that came late: a selection.
    "v1": """SELECT l_orderkey, l_linenumber, l_partkey, l_suppkey, l_quantity, l_extendedprice, l_discount, l_receiptdate
        FROM lineitem WHERE l_receiptdate > l_commitdate""",
    # Each line with what is known of its order, customer and nation: a wide table.
    "v2": """SELECT l_orderkey, l_linenumber, o_orderdate, o_orderpriority, c_custkey, c_name, c_mktsegment, n_name,
            l_shipmode, l_quantity, l_extendedprice * (1 - l_discount) AS revenue
        FROM lineitem JOIN orders ON l_orderkey = o_orderkey
            JOIN customer ON o_custkey = c_custkey JOIN nation ON c_nationkey = n_nationkey""",
    # Orders with their returned lines, if any: an outer join.
    "v3": """SELECT o_orderkey, o_custkey, o_orderdate, o_totalprice, l_linenumber, l_partkey, l_extendedprice
        FROM orders LEFT JOIN (SELECT * FROM lineitem WHERE l_returnflag = 'R') ON o_orderkey = l_orderkey""",
    # Orders of which no line came late.
    "v4": """SELECT o_orderkey, o_custkey, o_orderdate, o_orderpriority, o_totalprice FROM orders
        WHERE NOT EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_receiptdate > l_commitdate)""",
    # Lines and orders in one journal.
    "v5": """SELECT 'line' AS kind, l_orderkey AS number, l_shipdate AS day, l_extendedprice AS amount, l_comment AS remark FROM lineitem
        UNION ALL SELECT 'order', o_orderkey, o_orderdate, o_totalprice, o_comment FROM orders""",
    # Totals of each order: nearly as many groups as there are orders.
    "v6": """SELECT l_orderkey, COUNT(*) AS lines, SUM(l_quantity) AS quantity, SUM(l_extendedprice * (1 - l_discount)) AS revenue,
            MAX(l_receiptdate) AS received
        FROM lineitem GROUP BY l_orderkey""",
    # Which supplier has delivered which part.
    "v7": "SELECT DISTINCT l_partkey, l_suppkey FROM lineitem",
    # Each customer's orders, numbered.
    "v8": """SELECT o_orderkey, o_custkey, o_orderdate, o_totalprice,
            ROW_NUMBER() OVER (PARTITION BY o_custkey ORDER BY o_orderdate, o_orderkey) AS nth
        FROM orders""",
}
"""By the name that ``tempura bench`` calls them."""
