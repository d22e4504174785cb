"""The Spark settings that change results: kept with each run, and in force in every later run of the same query."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from tempura.frontend.compiled import END, compiled, ended
from tempura.frontend.session import clone

NAMED = (
    "spark.sql.ansi.enabled",
    "spark.sql.session.timeZone",
    "spark.sql.caseSensitive",
    "spark.sql.decimalOperations.allowPrecisionLoss",
    "spark.sql.timestampType",
    "spark.sql.mapKeyDedupPolicy",
    "spark.sql.groupByAliases",
    "spark.sql.groupByOrdinal",
    "spark.sql.orderByOrdinal",
    "spark.sql.parquet.binaryAsString",
    "spark.sql.parquet.int96AsTimestamp",
    "spark.sql.parquet.inferTimestampNTZ.enabled",
    "spark.sql.parquet.datetimeRebaseModeInRead",
    "spark.sql.parquet.int96RebaseModeInRead",
    "spark.sql.ansi.doubleQuotedIdentifiers",
    "spark.sql.ansi.enforceReservedKeywords",
    "spark.sql.crossJoin.enabled",
    "spark.sql.session.collation.default",
    # Values of functions.
    "spark.sql.function.concatBinaryAsString",
    "spark.sql.function.eltOutputAsString",
    "spark.sql.chunkBase64String.enabled",
    "spark.sql.icu.caseMappings.enabled",
    "spark.sql.jsonGenerator.ignoreNullFields",
    "spark.sql.columnNameOfCorruptRecord",
    # Types: what is a CHAR, and how it is padded.
    "spark.sql.charAsVarchar",
    "spark.sql.readSideCharPadding",
    "spark.sql.preserveCharVarcharTypeInfo",
    "spark.sql.storeAssignmentPolicy",
    # How files are read.
    "spark.sql.parquet.int96TimestampConversion",
    "spark.sql.parquet.fieldId.read.enabled",
    # How the text of a query is read.
    "spark.sql.parser.quotedRegexColumnNames",
    "spark.sql.parser.singleCharacterPipeOperator.enabled",
    "spark.sql.operatorPipeSyntaxEnabled",
    "spark.sql.allowNamedFunctionArguments",
    "spark.sql.variable.substitute",
)
_AT_WORK = {
    # Spark starts a job to look at more than 32 files, even if they are named one by one, as those of arrivals are.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
    # Stages are numbered as they happen to become ready. With the number in its name the same code is compiled for each, by Spark and
    # then by Java, and runs slowly until it is.
    "spark.sql.codegen.useIdInClassName": "false",
    # What several parts of a step read is held until it ends. To find encodings that make its columns small takes longer than all else
    # that is done with it; without, it takes 1.4 times the memory, or disk where that is not there.
    "spark.sql.inMemoryColumnarStorage.compressed": "false",
}
"""Settings that change how Spark works and not what results are."""
_UNLESS_SET = {
    # As how many bytes a file counts that is opened, when files are shared among tasks. With Spark's 4 MB a table of a large file and what
    # came to it in dozens of small ones is read by one task, and the others open the small ones. To open one takes a millisecond, in which
    # some hundred kB are read.
    "spark.sql.files.openCostInBytes": str(128 << 10),
}
"""The same, where the session does not say otherwise."""
_UNSEEN = {
    # A text of the plan for the user interface, made anew as often as a plan is adapted.
    "spark.sql.ui.explainMode": "simple",
}
"""The same, where nobody can look at Spark's user interface, now or later."""
_FAMILIES = ("spark.sql.legacy.", "spark.sql.ansi.", "spark.sql.collation.")


def semantic_settings(session: SparkSession) -> dict[str, str]:
    """The settings in force that change what a query means. Settings that a Spark version does not know are left out."""
    found = str(compiled(session, "Settings").of(session._jsparkSession, ended(NAMED), ended(_FAMILIES)))
    texts = found.split(END)[:-1]
    return dict(sorted(zip(texts[::2], texts[1::2], strict=True)))


def at_work(session: SparkSession) -> SparkSession:
    """A copy of a session, to work in. What something means there it means in the session."""
    work = clone(session)
    compiled(session, "Settings").add(work._jsparkSession, _told(_ways(session)))
    return work


def session_with(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A copy of a session, to work in, in which exactly these semantic settings are in force."""
    work = clone(session)
    compiled(session, "Settings").set(work._jsparkSession, _told(_ways(session) | dict(settings)), ended(_FAMILIES))
    return work


def _ways(session: SparkSession) -> dict[str, str]:
    """How Spark is to work in copies of a session."""
    said: Any = session._jsparkSession.sessionState().conf()
    unsaid = {name: value for name, value in _UNLESS_SET.items() if not said.contains(name)}
    return _AT_WORK | unsaid | ({} if _is_watched(session) else _UNSEEN)


def _told(settings: Mapping[str, str]) -> str:
    return ended(text for item in settings.items() for text in item)


def _is_watched(session: SparkSession) -> bool:
    """Whether Spark shows what it does, or writes it down."""
    # Not by PySpark's copy, which is made in a hundred calls.
    conf: Any = session.sparkContext._jsc.sc().conf()
    return bool(conf.getBoolean("spark.ui.enabled", True) or conf.getBoolean("spark.eventLog.enabled", False))
