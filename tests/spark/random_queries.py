"""Random SQL over small tables that change, by kinds of types: each result is a function of the bags of rows, and no row fails.

Where an order decides (limits, rankings, offsets, frames of rows), it is total up to equal rows. Sums of floats are exact, whatever their
order: what is summed are multiples of 1/8. What is known of a value only up to its last digits is no part of a query within another.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

Rows = tuple[str, ...]

DOMAINS = {
    "INT": "NULL|0|1|2|3|-1|7",
    "BIGINT": "NULL|0L|1L|2L|3L|5000000000L",
    "DECIMAL(10,2)": "NULL|0.00BD|1.00BD|1.50BD|-2.25BD|99999999.99BD",
    "DECIMAL(12,4)": "NULL|0.0000BD|1.0000BD|1.5000BD|2.1250BD",
    "DOUBLE": "NULL|0D|-0.0D|1D|1.5D|-2.25D|double('NaN')|double('Infinity')|double('-Infinity')",
    "STRING": "NULL|''|'a'|'A'|'a '|'b'|'\u00fc'|'1'",
    "DATE": "NULL|DATE'2024-01-31'|DATE'2024-02-29'|DATE'1969-12-31'|DATE'2024-03-31'",
    "TIMESTAMP": "NULL|TIMESTAMP'2024-01-31T00:00:00'|TIMESTAMP'2024-03-31T01:59:59.999999'|TIMESTAMP'1969-12-31T23:00:00'",
    "BOOLEAN": "NULL|true|false",
    "ARRAY<INT>": "NULL|array()|array(1)|array(1,NULL)|array(2,2,3)",
    "STRUCT<a:INT,b:STRING>": "NULL|named_struct('a',1,'b','a')|named_struct('a',NULL,'b','')|named_struct('a',2,'b',NULL)",
}
"""Few values of each type, so that rows repeat and keys meet; the awkward ones among them."""


class Table(NamedTuple):
    """A table: its columns with their types, and what is promised of it, as a warehouse declares it."""

    columns: Mapping[str, str]
    promises: Mapping[str, Any] = MappingProxyType({})

    @property
    def schema(self) -> str:
        return ", ".join(f"{name} {type}" for name, type in self.columns.items())


TABLES = {
    "t": Table(
        {
            "k": "INT", "g": "STRING", "v": "INT", "n": "BIGINT", "d": "DECIMAL(10,2)", "f": "DOUBLE", "dt": "DATE", "ts": "TIMESTAMP",
            "b": "BOOLEAN", "xs": "ARRAY<INT>", "st": "STRUCT<a:INT,b:STRING>",
        }
    ),
    "u": Table({"k": "INT", "g": "STRING", "w": "INT", "d": "DECIMAL(12,4)", "f": "DOUBLE", "b": "BOOLEAN"}),
    "p": Table({"id": "INT", "g": "STRING", "v": "INT", "dt": "DATE"}, {"keys": ["id"]}),
    "c": Table({"p": "INT", "v": "INT", "g": "STRING", "n": "BIGINT"}, {"references": {"p": "p.id"}}),
    "a": Table({"k": "INT", "g": "STRING", "v": "INT"}, {"append_only": True}),
    "s": Table({"k": "INT", "g": "STRING", "d": "DECIMAL(10,2)"}, {"static": True}),
    "e": Table({"k": "INT", "g": "STRING", "v": "INT"}),
}  # fmt: skip
"""Rows without a key, with one, referring to one; that only grow, that never change, that begin with none."""

KINDS = {
    "INT": "int", "BIGINT": "bigint", "DOUBLE": "double", "STRING": "string", "DATE": "date", "TIMESTAMP": "timestamp",
    "BOOLEAN": "boolean", "ARRAY<INT>": "array", "STRUCT<a:INT,b:STRING>": "struct", "DECIMAL(10,2)": "decimal", "DECIMAL(12,4)": "decimal",
}  # fmt: skip
NUMBERS = ("int", "bigint", "decimal", "double")


class Arrivals:
    """What comes to the tables and leaves them: at first, and at each time after that. What is promised of a table is kept."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._rows: dict[str, list[str]] = {name: [] for name in TABLES}
        self._ids = count(1)

    def next(self) -> dict[str, tuple[Rows, Rows]]:
        """Rows that come, and rows that leave, by table: some of them all of a table, none at some times."""
        first = not any(self._rows.values())
        style = "more" if first else self._random.choice(("mixed", "mixed", "mixed", "more", "nothing", "emptied"))
        if style == "nothing":
            return {}
        gone = {name: self._gone(name, style) for name in TABLES if name not in ("s", "a", "p")}
        left = {partner_of(row) for row in self._rows["c"]}
        gone["p"] = self._leaving(
            "p", [row for row in self._rows["p"] if partner_of(row) not in left], 0.5 if gone["c"] else 0.0
        )
        new = {
            name: self._new(name, first)
            for name in TABLES
            if name != "c" and (first or name != "s") and not (first and name == "e")
        }
        ids = ["NULL", *map(partner_of, (*self._rows["p"], *new["p"]))]
        new["c"] = tuple(self._row("c", self._random.choice(ids)) for _ in range(self._random.randrange(6)))
        for name, rows in new.items():
            self._rows[name] += rows
        return {name: (new.get(name, ()), gone.get(name, ())) for name in TABLES}

    def _gone(self, name: str, style: str) -> Rows:
        share = 0.0 if style == "more" else 1.0 if style == "emptied" and self._random.random() < 0.6 else 0.3
        return self._leaving(name, self._rows[name], share)

    def _leaving(self, name: str, rows: Sequence[str], share: float) -> Rows:
        gone = tuple(row for row in rows if self._random.random() < share)
        for row in gone:
            self._rows[name].remove(row)
        return gone

    def _new(self, name: str, first: bool) -> Rows:
        some = range(self._random.choice((5, 8) if first else (0, 0, 1, 2, 3)))
        if name == "p":
            return tuple(self._row(name, str(next(self._ids))) for _ in some)
        rows = [self._row(name) for _ in some]
        return (*rows, *(row for row in rows if self._random.random() < 0.2))

    def _row(self, name: str, *first: str) -> str:
        types = list(TABLES[name].columns.values())[len(first) :]
        return f"({', '.join((*first, *(self._random.choice(DOMAINS[type].split('|')) for type in types)))})"


def partner_of(row: str) -> str:
    """The first value of a row, as it is written."""
    return row[1:].partition(",")[0]


class Column(NamedTuple):
    """A column that an expression may read: as it is written, and the kind of its type."""

    name: str
    kind: str


class Select(NamedTuple):
    """A query that can stand in another's FROM, and its columns."""

    text: str
    columns: tuple[Column, ...]


class Queries:
    """Random queries. ``tables``: more that there are than :data:`TABLES`, with the kinds of their columns."""

    def __init__(self, random: Random, tables: dict[str, tuple[Column, ...]] | None = None) -> None:
        self.random = random
        own = {
            name: tuple(Column(c, KINDS[type]) for c, type in table.columns.items()) for name, table in TABLES.items()
        }
        self._tables = own | (tables or {})
        self._derived = tuple(tables or ())
        self._names = 0

    # --- expressions ------------------------------------------------------------------------------------------------

    def name(self, prefix: str = "c") -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def one_of(self, *texts: str) -> str:
        return self.random.choice(texts)

    def maybe(self, share: float) -> bool:
        return self.random.random() < share

    def of(self, scope: Sequence[Column], *kinds: str) -> Column | None:
        found = [column for column in scope if column.kind in kinds]
        return self.random.choice(found) if found else None

    def expr(self, kind: str, scope: Sequence[Column], depth: int = 1) -> str:
        """An expression of a kind over the columns of a scope."""
        column = self.of(scope, kind)
        if column and (depth <= 0 or self.maybe(0.55)):
            return column.name
        if depth <= 0:
            return self.literal(kind)
        make: Callable[[Sequence[Column], int], str] = getattr(self, f"_{kind}")
        if self.maybe(0.2):
            x, y = (self.expr(kind, scope, depth - 1) for _ in range(2))
            p = self.predicate(scope, depth - 1)
            case = f"CASE WHEN {p} THEN {x}"
            return self.one_of(f"coalesce({x}, {y})", f"{case} ELSE {y} END", f"{case} END", f"nullif({x}, {y})")
        return make(scope, depth - 1)

    def literal(self, kind: str) -> str:
        type = self.random.choice([type for type, k in KINDS.items() if k == kind.replace("real", "double")])
        return self.random.choice(DOMAINS[type].split("|")[1:])

    def _int(self, scope: Sequence[Column], depth: int) -> str:
        x, y = (self.expr("int", scope, depth) for _ in range(2))
        forms = [
            f"({x} + {y}) % 11",
            f"{x} * 2 % 7",
            f"abs({x} % 5)",
            self.literal("int"),
            f"greatest({x} % 9, {y} % 9)",
        ]
        if g := self.of(scope, "string"):
            forms.append(f"length({g.name})")
        if dt := self.of(scope, "date"):
            forms += [f"month({dt.name})", f"datediff({dt.name}, DATE'2024-01-01')"]
        if xs := self.of(scope, "array"):
            forms += [f"size({xs.name})", f"get({xs.name}, 0)"]
        if st := self.of(scope, "struct"):
            forms.append(f"{st.name}.a")
        if b := self.of(scope, "boolean"):
            forms.append(f"CAST({b.name} AS INT)")
        return self.one_of(*forms)

    def _bigint(self, scope: Sequence[Column], depth: int) -> str:
        x, n = self.expr("int", scope, depth), self.expr("bigint", scope, depth)
        return self.one_of(f"CAST({x} AS BIGINT)", f"{n} % 1000 + {x} % 100", f"-({n} % 1000)")

    def _decimal(self, scope: Sequence[Column], depth: int) -> str:
        x, d = self.expr("int", scope, depth), self.expr("decimal", scope, depth)
        few = f"{d} % 1000"
        return self.one_of(
            f"CAST({x} % 1000 AS DECIMAL(10,2))",
            f"{few} + 0.5",
            f"{few} * 1.25",
            f"-({d})",
            f"{few} / 3",
            f"round({d}, 1)",
        )

    def _double(self, scope: Sequence[Column], depth: int) -> str:
        x, f = self.expr("int", scope, depth), self.expr("double", scope, depth)
        return self.one_of(f"CAST({x} AS DOUBLE)", f"{f} + 0.5D", f"{f} * 2D", f"-({f})")

    def _real(self, scope: Sequence[Column], depth: int) -> str:
        return f"CAST({self.expr('int', scope, depth)} AS DOUBLE) / 3"

    def _string(self, scope: Sequence[Column], depth: int) -> str:
        g, h, x = (self.expr(kind, scope, depth) for kind in ("string", "string", "int"))
        parts = f"trim({g})", f"substr({g}, 1, 1)", f"CAST({x} AS STRING)", f"concat_ws('-', {g}, {h})"
        return self.one_of(f"{g} || 'x'", f"upper({g})", *parts)

    def _date(self, scope: Sequence[Column], depth: int) -> str:
        dt = self.expr("date", scope, depth)
        forms = [
            f"date_add({dt}, {self.expr('int', scope, depth)} % 30)",
            f"last_day({dt})",
            f"trunc({dt}, 'MM')",
            self.literal("date"),
        ]
        if ts := self.of(scope, "timestamp"):
            forms.append(f"CAST({ts.name} AS DATE)")
        return self.one_of(*forms)

    def _timestamp(self, scope: Sequence[Column], depth: int) -> str:
        ts, dt = self.expr("timestamp", scope, depth), self.expr("date", scope, depth)
        return self.one_of(f"{ts} + INTERVAL 1 DAY", f"date_trunc('HOUR', {ts})", f"CAST({dt} AS TIMESTAMP)")

    def _boolean(self, scope: Sequence[Column], depth: int) -> str:
        return f"({self.predicate(scope, depth)})"

    def _array(self, scope: Sequence[Column], depth: int) -> str:
        x, y = (self.expr("int", scope, depth) for _ in range(2))
        return self.one_of(
            f"array({x}, {y})", self.literal("array"), f"transform({self.expr('array', scope, depth)}, i -> i % 3 + 1)"
        )

    def _struct(self, scope: Sequence[Column], depth: int) -> str:
        return f"named_struct('a', {self.expr('int', scope, depth)}, 'b', {self.expr('string', scope, depth)})"

    def predicate(self, scope: Sequence[Column], depth: int = 1) -> str:
        column = self.random.choice(scope)
        kind = column.kind
        x, y = column.name, self.expr(kind, scope, depth - 1)
        forms = [
            f"{x} IS NULL",
            f"{x} IS NOT NULL",
            f"{x} = {y}",
            f"{x} <=> {y}",
            f"{x} <> {y}",
            f"{x} < {y}",
            f"{x} >= {y}",
        ]
        if kind in (*NUMBERS, "string", "date", "timestamp"):
            forms += [
                f"{x} > {self.literal(kind)}",
                f"{x} IN ({self.literal(kind)}, {self.literal(kind)})",
                f"{x} NOT IN ({y}, NULL)",
            ]
            forms.append(f"{x} BETWEEN {self.literal(kind)} AND {y}")
        if kind == "string":
            forms.append(f"{x} LIKE 'a%'")
        if kind == "boolean":
            forms += [x, f"NOT {x}"]
        if depth > 0:
            p, q = (self.predicate(scope, depth - 1) for _ in range(2))
            forms += [f"({p} AND {q})", f"({p} OR {q})", f"NOT ({p})"]
        return self.one_of(*forms)

    # --- queries ----------------------------------------------------------------------------------------------------

    def query(self, depth: int) -> Select:
        """A query of so many operators, one over the other; of more where there are joins and sub-queries."""
        if depth <= 0:
            return self.table()
        often = (self.joined, self.joined, self.grouped, self.windowed, self.set_operation, self.exists, self.scalar)
        makers = (
            *often, *often, self.filtered, self.projected, self.using, self.semi, self.grouping_sets, self.ranked, self.top, self.distinct,
            self.whole_scalar, self.lateral, self.exploded, self.pivoted, self.unpivoted, self.twice, self.shown_exists,
        )  # fmt: skip
        return self.random.choice(makers)(depth - 1)

    def table(self) -> Select:
        if self._derived and self.maybe(0.5):
            name = self.random.choice(self._derived)
        else:
            name = self.one_of(*TABLES, "t", "t", "u", "u", "c", "p")
        columns = [c for c in self._tables[name] if self.maybe(0.5)] or [self._tables[name][0]]
        outputs = [Column(self.name(), c.kind) for c in columns]
        listed = ", ".join(f"{c.name} AS {o.name}" for c, o in zip(columns, outputs, strict=True))
        return Select(f"SELECT {listed} FROM {name}", tuple(outputs))

    def outputs(self, exprs: Sequence[tuple[str, str]]) -> tuple[str, tuple[Column, ...]]:
        """A list of expressions with their kinds, under new names."""
        columns = tuple(Column(self.name(), kind) for _, kind in exprs)
        return ", ".join(f"{text} AS {c.name}" for (text, _), c in zip(exprs, columns, strict=True)), columns

    def some(self, scope: Sequence[Column], most: int = 4) -> list[tuple[str, str]]:
        """Some columns and expressions over them."""
        chosen = self.random.sample(list(scope), min(len(scope), self.random.randint(1, most)))
        return [(self.expr(c.kind, scope, 2), c.kind) if self.maybe(0.25) else (c.name, c.kind) for c in chosen]

    def order(self, columns: Sequence[Column]) -> str:
        """A total order, up to equal rows: -0.0 and 0.0 are equal, and differ."""
        shuffled = self.random.sample(list(columns), len(columns))
        keys = [f"{c.name}{self.one_of('', ' DESC')}{self.one_of('', ' NULLS FIRST', ' NULLS LAST')}" for c in shuffled]
        return ", ".join([*keys, *(f"CAST({c.name} AS STRING)" for c in shuffled if c.kind in ("double", "real"))])

    def filtered(self, depth: int) -> Select:
        source, scope = self.source(depth)
        listed, columns = self.outputs([(c.name, c.kind) for c in scope])
        return Select(f"SELECT {listed} FROM {source} WHERE {self.predicate(scope, 2)}", columns)

    def projected(self, depth: int) -> Select:
        source, scope = self.source(depth)
        kinds = [
            self.one_of("int", "bigint", "decimal", "double", "string", "date", "boolean", "array", "struct")
            for _ in range(2)
        ]
        listed, columns = self.outputs([*self.some(scope), *((self.expr(kind, scope, 2), kind) for kind in kinds)])
        return Select(f"SELECT {listed} FROM {source}", columns)

    def condition(self, left: Sequence[Column], right: Sequence[Column]) -> str:
        """A condition on two sides."""
        pairs = [
            (a, b) for a in left for b in right if a.kind == b.kind or {a.kind, b.kind} <= {"int", "bigint", "decimal"}
        ]
        if not pairs or self.maybe(0.05):
            return self.predicate([*left, *right], 1)
        a, b = self.random.choice(pairs)
        equal = self.one_of(*[f"{a.name} = {b.name}"] * 5, f"{a.name} <=> {b.name}", f"{a.name} < {b.name}")
        if self.maybe(0.1) and a.kind == b.kind:
            equal = f"{self.expr(a.kind, left, 1)} = {self.expr(b.kind, right, 1)}"
        more = [
            self.predicate(self.random.choice((left, right, [*left, *right])), 1)
            for _ in range(self.random.choice((0, 0, 1)))
        ]
        word = " OR " if self.maybe(0.1) else " AND "
        return word.join([equal, *more])

    def two(self, depth: int) -> tuple[str, list[Column], str, list[Column]]:
        """Two queries in FROM, each with its columns."""
        return *self.source(depth), *self.source(self.random.randint(0, depth))

    def source(self, depth: int) -> tuple[str, list[Column]]:
        """A query in FROM, and its columns as they are read beside others'."""
        select, name = self.query(depth), self.name("r")
        return f"({select.text}) {name}", [Column(f"{name}.{c.name}", c.kind) for c in select.columns]

    def joined(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        kind = self.one_of("JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "FULL JOIN", "CROSS JOIN")
        on = "" if kind == "CROSS JOIN" else f" ON {self.condition(x, y)}"
        where = f" WHERE {self.predicate([*x, *y], 1)}" if self.maybe(0.15) else ""
        listed, columns = self.outputs([*self.some(x), *self.some(y)])
        return Select(f"SELECT {listed} FROM {left} {kind} {right}{on}{where}", columns)

    def using(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        kind = self.one_of("int", "int", "string")
        key, v, w = self.name("k"), self.name("v"), self.name("w")
        p, q = self.random.choice(x), self.random.choice(y)
        first = f"(SELECT {self.expr(kind, x, 0)} AS {key}, {p.name} AS {v} FROM {left}) {self.name('r')}"
        second = f"(SELECT {self.expr(kind, y, 0)} AS {key}, {q.name} AS {w} FROM {right}) {self.name('r')}"
        join = self.one_of("", "LEFT ", "RIGHT ", "FULL ")
        text = (
            f"{first} NATURAL {join}JOIN {second}" if self.maybe(0.4) else f"{first} {join}JOIN {second} USING ({key})"
        )
        return Select(f"SELECT * FROM {text}", (Column(key, kind), Column(v, p.kind), Column(w, q.kind)))

    def semi(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        listed, columns = self.outputs(self.some(x))
        kind = self.one_of("LEFT SEMI", "LEFT ANTI")
        return Select(f"SELECT {listed} FROM {left} {kind} JOIN {right} ON {self.condition(x, y)}", columns)

    def aggregate(self, scope: Sequence[Column], window: bool = False) -> tuple[str, str]:
        """A call of an aggregate function."""
        number = self.of(scope, *NUMBERS)
        any, forms = self.random.choice(scope), [("count(*)", "bigint")]
        argument = f"{any.name} + 0D" if any.kind in ("double", "real") else any.name
        forms += [(f"{self.one_of('min', 'max')}({argument})", any.kind)] * 2
        forms.append((f"count({any.name})", "bigint"))
        if number:
            x, whole = number.name, "bigint" if number.kind == "int" else number.kind
            bounded = f"{x} % 1000" if number.kind in ("bigint", "decimal") else x
            forms += [
                (f"sum({bounded})", whole),
                (f"avg({bounded})", "decimal" if number.kind == "decimal" else "real"),
            ] * 2
        if b := self.of(scope, "boolean"):
            forms += [(f"{self.one_of('bool_and', 'bool_or')}({b.name})", "boolean"), (f"count_if({b.name})", "bigint")]
        if not window:
            other = self.random.choice(scope)
            forms += [
                (f"count(DISTINCT {any.name})", "bigint"),
                (f"count(DISTINCT {any.name}, {other.name})", "bigint"),
            ]
            forms.append((f"array_size(collect_set({any.name}))", "int"))
            if number and number.kind in ("int", "double"):
                forms.append((f"sum(DISTINCT {number.name})", "bigint" if number.kind == "int" else "double"))
            if ints := self.of(scope, "int"):
                forms += [
                    (f"sort_array(collect_list({ints.name}))", "array"),
                    (f"median({ints.name})", "real"),
                    (f"bit_xor({ints.name})", "int"),
                ]
        text, kind = self.random.choice(forms)
        if not window and self.maybe(0.2) and not text.startswith(("array_size", "sort_array", "median")):
            text = f"{text} FILTER (WHERE {self.predicate(scope, 1)})"
        return text, kind

    def grouped(self, depth: int) -> Select:
        source, scope = self.source(depth)
        keys = [] if self.maybe(0.15) else self.some(scope, 2)
        calls = [self.aggregate(scope) for _ in range(self.random.choice((1, 2, 2, 3)))]
        if keys and self.maybe(0.1):
            calls = []
        listed, columns = self.outputs([*keys, *calls])
        by = f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
        having = (
            self.one_of("count(*) > 1", "count(*) >= 0", f"count({scope[0].name}) < 3")
            if self.maybe(0.2) and calls
            else ""
        )
        return Select(f"SELECT {listed} FROM {source}{by}{f' HAVING {having}' if having else ''}", columns)

    def grouping_sets(self, depth: int) -> Select:
        source, scope = self.source(depth)
        keys = [(c.name, c.kind) for c in self.random.sample(scope, min(len(scope), 2))]
        calls = [self.aggregate(scope) for _ in range(self.random.choice((1, 2)))]
        names = [text for text, _ in keys]
        calls += [(f"grouping_id({', '.join(names)})", "bigint")] if self.maybe(0.5) else []
        listed, columns = self.outputs([*keys, *calls])
        both, first = ", ".join(names), names[0]
        sets = self.one_of(f"({both}), ({first}), ()", f"({first}), ({both}), ({both})", f"(), ({both})")
        by = self.one_of(f"ROLLUP ({both})", f"CUBE ({both})", f"GROUPING SETS ({sets})")
        return Select(f"SELECT {listed} FROM {source} GROUP BY {by}", columns)

    def frame(self) -> str:
        rows = (
            "1 PRECEDING AND 1 FOLLOWING",
            "UNBOUNDED PRECEDING AND CURRENT ROW",
            "CURRENT ROW AND UNBOUNDED FOLLOWING",
        )
        return self.one_of("", *(f" ROWS BETWEEN {bounds}" for bounds in rows))

    def windowed(self, depth: int) -> Select:
        source, scope = self.source(depth)
        part = self.random.choice(scope)
        by = f"PARTITION BY {part.name} " if self.maybe(0.75) else ""
        calls = []
        for _ in range(self.random.choice((1, 1, 2))):
            order, key, any = self.order(scope), self.random.choice(scope), self.random.choice(scope)
            call, kind = self.aggregate(scope, window=True)
            calls.append(
                self.random.choice(
                    (
                        (
                            f"{self.one_of('rank', 'dense_rank')}() OVER ({by}ORDER BY {key.name}{self.one_of('', ' DESC')})",
                            "int",
                        ),
                        (f"row_number() OVER ({by}ORDER BY {order})", "int"),
                        (
                            f"{self.one_of('lag', 'lead')}({any.name}, {self.one_of('1', '2')}) OVER ({by}ORDER BY {order})",
                            any.kind,
                        ),
                        (
                            f"{self.one_of('first_value', 'last_value')}({any.name}) OVER ({by}ORDER BY {order})",
                            any.kind,
                        ),
                        (f"ntile(2) OVER ({by}ORDER BY {order})", "int"),
                        (f"{call} OVER ({by.strip()})", kind),
                        (f"{call} OVER ({by}ORDER BY {order}{self.frame()})", kind),
                        (
                            f"{call} OVER ({by}ORDER BY {key.name} RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)",
                            kind,
                        ),
                    )
                )
            )
        listed, columns = self.outputs([*self.some(scope), *calls])
        return Select(f"SELECT {listed} FROM {source}", columns)

    def ranked(self, depth: int) -> Select:
        source, scope = self.source(depth)
        listed, columns = self.outputs([(c.name, c.kind) for c in scope])
        part, rank = self.random.choice(scope), self.name("n")
        call = self.one_of(f"row_number() OVER (PARTITION BY {part.name} ORDER BY {self.order(scope)})",
                           f"rank() OVER (PARTITION BY {part.name} ORDER BY {self.random.choice(scope).name})")  # fmt: skip
        inner = f"SELECT {listed}, {call} AS {rank} FROM {source}"
        return Select(
            f"SELECT {', '.join(c.name for c in columns)} FROM ({inner}) WHERE {rank} <= {self.one_of('1', '2')}",
            columns,
        )

    def top(self, depth: int) -> Select:
        source, scope = self.source(depth)
        listed, columns = self.outputs([(c.name, c.kind) for c in scope])
        order = self.order(columns)
        limit = self.one_of("LIMIT 1", "LIMIT 3", "LIMIT 3", "LIMIT 2 OFFSET 1", "OFFSET 2", "LIMIT 100")
        return Select(f"SELECT {listed} FROM {source} ORDER BY {order} {limit}", columns)

    def distinct(self, depth: int) -> Select:
        source, scope = self.source(depth)
        listed, columns = self.outputs(self.some(scope, 3))
        return Select(f"SELECT DISTINCT {listed} FROM {source}", columns)

    def set_operation(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        kinds = [c.kind for c in self.random.sample(x, min(len(x), self.random.randint(1, 3)))]
        first, columns = self.outputs([(self.expr(kind, x, 1), kind) for kind in kinds])
        second = ", ".join(self.expr(kind, y, 1) for kind in kinds)
        word = self.one_of("UNION", "UNION ALL", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL")
        return Select(f"SELECT {first} FROM {left} {word} SELECT {second} FROM {right}", columns)

    def exists(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        listed, columns = self.outputs([(c.name, c.kind) for c in x])
        where = self.existence(x, right, y)
        if self.maybe(0.25):
            where = f"{where} {self.one_of('OR', 'AND')} {self.predicate(x, 1)}"
        return Select(f"SELECT {listed} FROM {left} WHERE {where}", columns)

    def existence(self, x: Sequence[Column], right: str, y: Sequence[Column]) -> str:
        """EXISTS or IN, correlated or not."""
        c = self.random.choice(x)
        within = self.expr(c.kind, y, 0)
        more = f" WHERE {self.condition(x, y)}" if self.maybe(0.25) else ""
        return self.one_of(
            f"EXISTS (SELECT 1 FROM {right} WHERE {self.condition(x, y)})",
            f"NOT EXISTS (SELECT 1 FROM {right} WHERE {self.condition(x, y)})",
            f"{c.name} IN (SELECT {within} FROM {right}{more})",
            f"{c.name} NOT IN (SELECT {within} FROM {right}{more})",
        )

    def shown_exists(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        listed, columns = self.outputs([*self.some(x), (self.existence(x, right, y), "boolean")])
        return Select(f"SELECT {listed} FROM {left}", columns)

    def scalar(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        call, kind = self.aggregate(y)
        pairs = [(p, q) for p in x for q in y if p.kind == q.kind]
        if not pairs:
            return self.query(depth)
        p, q = self.random.choice(pairs)
        value = f"(SELECT {call} FROM {right} WHERE {q.name} = {p.name}{f' AND {self.predicate(y, 1)}' if self.maybe(0.3) else ''})"
        if self.maybe(0.3):
            listed, columns = self.outputs(self.some(x))
            compared = self.expr(kind, x, 1)
            return Select(
                f"SELECT {listed} FROM {left} WHERE {value} {self.one_of('=', '<', '>=', '<=>')} {compared}", columns
            )
        listed, columns = self.outputs([*self.some(x), (value, kind)])
        return Select(f"SELECT {listed} FROM {left}", columns)

    def whole_scalar(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        call, kind = self.aggregate(y)
        value = f"(SELECT {call} FROM {right})"
        if self.maybe(0.5):
            listed, columns = self.outputs(self.some(x))
            return Select(
                f"SELECT {listed} FROM {left} WHERE {self.expr(kind, x, 1)} {self.one_of('=', '<', '>=')} {value}",
                columns,
            )
        listed, columns = self.outputs([*self.some(x), (value, kind)])
        return Select(f"SELECT {listed} FROM {left}", columns)

    def lateral(self, depth: int) -> Select:
        left, x, right, y = self.two(depth)
        pairs = [(p, q) for p in x for q in y if p.kind == q.kind]
        if not pairs:
            return self.query(depth)
        p, q = self.random.choice(pairs)
        form, name = self.one_of("all", "aggregate", "first"), self.name("l")
        exprs = [self.aggregate(y)] if form == "aggregate" else self.some(y, 2)
        listed, inner = self.outputs(exprs)
        limit = f" ORDER BY {self.order(inner)} LIMIT {self.one_of('1', '2')}" if form == "first" else ""
        text = f"LATERAL (SELECT {listed} FROM {right} WHERE {q.name} = {p.name}{limit}) {name}"
        join = self.one_of(",", " JOIN", " LEFT JOIN")
        own, outer = self.outputs([*self.some(x), *((f"{name}.{c.name}", c.kind) for c in inner)])
        on = " ON true" if join == " LEFT JOIN" else ""
        return Select(f"SELECT {own} FROM {left}{join} {text}{on}", outer)

    def exploded(self, depth: int) -> Select:
        source, scope = self.source(depth)
        xs, name, x = self.expr("array", scope, 2), self.name("l"), self.name("x")
        listed, columns = self.outputs([*self.some(scope), (x, "int")])
        outer, view = self.one_of("", "OUTER "), self.maybe(0.6)
        call = "explode_outer" if outer else "explode"
        text = (
            f"{source} LATERAL VIEW {outer}explode({xs}) {name} AS {x}"
            if view
            else f"{source}, LATERAL {call}({xs}) AS {name}({x})"
        )
        return Select(f"SELECT {listed} FROM {text}", columns)

    def pivoted(self, depth: int) -> Select:
        source, scope = self.source(depth)
        key, by = self.expr("int", scope, 1), self.random.choice(scope)
        k, g, v = self.name("k"), self.name("g"), self.name("v")
        a, b = self.name("p"), self.name("p")
        inner = f"SELECT {key} AS {k}, {by.name} AS {g}, {self.expr('int', scope, 1)} AS {v} FROM {source}"
        call = self.one_of(f"sum({v})", f"count({v})")
        columns = (Column(g, by.kind), Column(a, "bigint"), Column(b, "bigint"))
        return Select(f"SELECT * FROM ({inner}) PIVOT ({call} FOR {k} IN (1 AS {a}, 2 AS {b}))", columns)

    def unpivoted(self, depth: int) -> Select:
        source, scope = self.source(depth)
        k, x, y, value, of = (self.name(n) for n in "kxyvo")
        key = self.random.choice(scope)
        inner = f"SELECT {key.name} AS {k}, {self.expr('int', scope, 1)} AS {x}, {self.expr('int', scope, 1)} AS {y} FROM {source}"
        nulls = self.one_of("", "INCLUDE NULLS ")
        columns = (Column(k, key.kind), Column(of, "string"), Column(value, "int"))
        return Select(f"SELECT * FROM ({inner}) UNPIVOT {nulls}({value} FOR {of} IN ({x}, {y}))", columns)

    def twice(self, depth: int) -> Select:
        """A common table that is read twice."""
        below = self.query(depth)
        name, a, b = self.name("w"), self.name("r"), self.name("r")
        x, y = ([Column(f"{alias}.{c.name}", c.kind) for c in below.columns] for alias in (a, b))
        kind = self.one_of("JOIN", "LEFT JOIN", "FULL JOIN")
        p, q = self.random.choice(list(zip(x, y, strict=True)))
        if self.maybe(0.3):
            listed, columns = self.outputs([(c.name, c.kind) for c in x])
            word, others = self.one_of("UNION ALL", "EXCEPT ALL", "INTERSECT"), ", ".join(c.name for c in y)
            text = f"SELECT {listed} FROM {name} {a} WHERE {self.predicate(x)} {word} SELECT {others} FROM {name} {b}"
            return Select(f"WITH {name} AS ({below.text}) {text}", columns)
        listed, columns = self.outputs([*self.some(x), *self.some(y)])
        return Select(
            f"WITH {name} AS ({below.text}) SELECT {listed} FROM {name} {a} {kind} {name} {b} ON {p.name} = {q.name}",
            columns,
        )
