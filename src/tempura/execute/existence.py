"""Joins that the DataFrame API does not have: they are given to Spark as logical plans."""

from typing import Any

from pyspark.sql import DataFrame

from tempura.execute.jvm import DATASET, Jvm

_CATALYST = "org.apache.spark.sql.catalyst"


def existence_join(left: DataFrame, right: DataFrame, on: Any, marker: str) -> DataFrame:
    """Each row of ``left``, then a boolean column named ``marker``: whether some row of ``right`` makes ``on``, a Catalyst
    expression over the columns of both, TRUE."""
    jvm = Jvm(left.sparkSession)
    return _join(jvm, left, right, on, jvm.construct(f"{_CATALYST}.plans.ExistenceJoin", _attribute(jvm, marker)))


def single_join(left: DataFrame, right: DataFrame, on: Any) -> DataFrame:
    """The left outer join; the job fails when a row of ``left`` matches two rows."""
    jvm = Jvm(left.sparkSession)
    return _join(jvm, left, right, on, jvm.companion(f"{_CATALYST}.plans.LeftSingle"))


def _join(jvm: Jvm, left: DataFrame, right: DataFrame, on: Any, kind: Any) -> DataFrame:
    session = left.sparkSession
    sides = [frame._jdf.queryExecution().analyzed() for frame in (left, right)]
    none = jvm.java.static(f"{_CATALYST}.plans.logical.JoinHint", "NONE")()
    plan = jvm.construct(f"{_CATALYST}.plans.logical.Join", *sides, kind, jvm.option(on), none)
    return DataFrame(jvm.java.static(DATASET, "ofRows")(session._jsparkSession, plan), session)


def _attribute(jvm: Jvm, name: str) -> Any:
    """A boolean column that is never NULL, with a new expression id."""
    types = "org.apache.spark.sql.types"
    boolean = jvm.java.static(f"{types}.DataType", "fromDDL")("boolean")
    nothing = jvm.java.static(f"{types}.Metadata", "empty")()
    id = jvm.java.static(f"{_CATALYST}.expressions.NamedExpression", "newExprId")()
    arguments = (name, boolean, False, nothing, id, jvm.seq(()))
    return jvm.construct(f"{_CATALYST}.expressions.AttributeReference", *arguments)
