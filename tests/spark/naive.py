"""A lifted query over DataFrames by the shortest way: what `bind` gives is what is tested, not an executor."""

from collections.abc import Callable, Mapping
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession, functions

from tempura.algebra.expand import Expand
from tempura.algebra.one import One
from tempura.algebra.rel import Aggregate, Filter, Join, Project, Rel, Scan, TopK, Union, Values
from tempura.algebra.scalar import TRUE, Column, Expr, SortKey
from tempura.execute.draft import Draft
from tempura.frontend.catalyst import jvm_of
from tempura.frontend.expressions import bind, bind_aggregate, column
from tempura.frontend.literals import jvm_type, literal_later

_KINDS = {"inner": "inner", "left": "left_outer", "full": "full_outer", "semi": "left_semi", "anti": "left_anti"}


def name_of(c: Column) -> str:
    return f"a.b`{c.id}"  # a name that works only if it is quoted


def quoted(c: Column) -> str:
    return "`" + name_of(c).replace("`", "``") + "`"


def spark_column(expr: Expr) -> SparkColumn:
    return column(bind(expr, name_of))


def run(session: SparkSession, rel: Rel, tables: Mapping[str, DataFrame]) -> DataFrame:
    inputs = [run(session, i, tables) for i in rel.inputs]
    match rel:
        case Scan():
            named = [functions.col(f"`{f}`").alias(name_of(c)) for f, c in zip(rel.fields, rel.outputs, strict=True)]
            return tables[rel.table].select(named)
        case Values():
            return _values(session, rel)
        case Filter():
            return inputs[0].where(spark_column(rel.predicate))
        case Project():
            return inputs[0].select([spark_column(o.expr).alias(name_of(o.column)) for o in rel.outputs])
        case Expand():
            parts = [
                inputs[0].select([spark_column(o.expr).alias(name_of(o.column)) for o in p]) for p in rel.projections
            ]
            return reduce(lambda a, b: a.unionAll(b), parts)
        case Join():
            if rel.marker is not None:
                left, right = map(Draft.of, inputs)
                return left.exists(right, bind(rel.on, name_of), name_of(rel.marker)).dataframe()
            on = functions.lit(True) if rel.on == TRUE else spark_column(rel.on)
            return inputs[0].join(inputs[1], on, _KINDS[rel.kind])
        case Aggregate():
            return _aggregate(rel, inputs[0])
        case Union():
            return reduce(lambda a, b: a.unionAll(b), inputs)
        case One():
            value = inputs[0].select(functions.struct("*").alias("row")).scalar()
            return session.range(1).select(value.alias("row")).select("row.*")
        case TopK():
            ordered = inputs[0].orderBy(*[sort_key(key) for key in rel.order]) if rel.order else inputs[0]
            return ordered.limit(rel.limit)
    raise NotImplementedError(rel.label)


def _aggregate(rel: Aggregate, df: DataFrame) -> DataFrame:
    calls = [column(bind_aggregate(a.call, name_of)).alias(name_of(a.column)) for a in rel.aggregates]
    keys = df.groupBy(*[spark_column(k.expr).alias(name_of(k.column)) for k in rel.keys])
    if calls:
        return keys.agg(*calls)
    return keys.agg(functions.lit(1).alias("none")).drop("none")


def _values(session: SparkSession, rel: Values) -> DataFrame:
    if not rel.outputs:
        return session.range(len(rel.rows)).select()
    columns = list(enumerate(rel.outputs))

    def row(values: tuple[object, ...]) -> list[SparkColumn]:
        jvm = jvm_of(session)
        parts = [literal_later(jvm, values[i], c.type, jvm_type(jvm, c.type)) for i, c in columns]
        return [column(part).alias(name_of(c)) for part, (_, c) in zip(parts, columns, strict=True)]

    nothing = session.range(1).select(row(tuple(None for _ in columns))).limit(0)
    return reduce(lambda a, b: a.unionAll(b), [session.range(1).select(row(r)) for r in rel.rows], nothing)


def sort_key(key: SortKey) -> SparkColumn:
    way: dict[tuple[bool, bool], Callable[[SparkColumn], SparkColumn]] = {
        (True, True): SparkColumn.asc_nulls_first,
        (True, False): SparkColumn.asc_nulls_last,
        (False, True): SparkColumn.desc_nulls_first,
        (False, False): SparkColumn.desc_nulls_last,
    }
    return way[key.ascending, key.nulls_first](spark_column(key.expr))
