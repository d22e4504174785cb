"""The value of a scalar sub-query on Spark: by Spark's own scalar sub-query, which fails on two rows as in the user's query."""

from tempura.algebra.one import One
from tempura.execute import functions as fn
from tempura.execute.draft import Draft
from tempura.execute.naming import attribute, attributes
from tempura.execute.relation import Relation, expand


def one_row(rel: One, input: Relation) -> Relation:
    """The only row of the input, or NULLs. The job fails with SCALAR_SUBQUERY_TOO_MANY_ROWS when there are two."""
    rows = expand(input, rel.columns)
    packed = rows.select(fn.struct(*attributes(rel.columns)).alias("_row"))
    value = Draft.of(rows.session.range(0, 1, 1, 1)).select(packed.scalar().alias("_row"))
    fields = [attribute("_row").getField(column.id).alias(column.id) for column in rel.columns]
    return Relation(value.select(*fields), weighted=False)
