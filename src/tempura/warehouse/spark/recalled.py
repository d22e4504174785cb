"""What Spark said to earlier processes, as an engine recalls it: until Spark runs, which is asked then."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from tempura.algebra.plain import NotPlainError, from_plain, plain
from tempura.errors import Reason, TempuraError
from tempura.frontend.lift import Lifted
from tempura.frontend.tree import Awaited
from tempura.frontend.udf import USER_DEFINED
from tempura.warehouse.spark.notes import Notes

Question = Mapping[str, Any]


class Recalled:
    """Answers from notes while Spark does not run, as ``is_started`` tells, and notes what it answers then."""

    def __init__(self, notes: Notes, is_started: Callable[[], bool]) -> None:
        self._notes = notes
        self._is_started = is_started
        self._answers: dict[str, tuple[Any, Sequence[object]]] = {}

    def told(self, question: Question, ask: Callable[[], Any]) -> Any:
        """An answer that is plain data: noted, or Spark's."""
        found = self._noted(question)
        if found is not None:
            return found
        answer = ask()
        self._note(question, answer)
        return answer

    def lifted(self, question: Question, ask: Callable[[], Lifted]) -> Lifted:
        """A query in the algebra: as it is noted, with handles for which Spark is asked when they are needed, or as Spark gives it."""
        found = self._noted(question)
        if found is not None and (known := _recalled(found, cache(lambda: self._handles(question, found, ask)))):
            return known
        lifted = ask()
        if told := _told(lifted):
            self._answers[_key(question)] = told
            self._note(question, told[0])
        return lifted

    def _handles(self, question: Question, noted: Any, ask: Callable[[], Lifted]) -> Sequence[object]:
        """The handles of a query that was recalled."""
        told = self._answers.get(_key(question)) or _told(ask())
        if not told or told[0] != noted:
            what = f"Spark reads a query otherwise than an earlier command has noted: {question['text'].strip()}"
            raise TempuraError("NOTE_WRONG", what, "Run the command again: it is noted anew.")
        return told[1]

    def _noted(self, question: Question) -> Any | None:
        return None if self._is_started() else self._notes.answer(question)

    def _note(self, question: Question, answer: Any) -> None:
        if self._notes.answer(question) != answer:
            self._notes.note(question, answer)


def _key(question: Question) -> str:
    return json.dumps(question, sort_keys=True)


def _told(lifted: Lifted) -> tuple[dict[str, Any], list[object]] | None:
    """A lifted query as plain data, and its handles; None for one with parts that only Spark knows, or with a user's functions, of which
    a text says the name only."""
    try:
        query, handles = plain((lifted.rel, lifted.order))
    except NotPlainError:
        return None
    if any(told.get("function") in USER_DEFINED for _, told in query["nodes"]):
        return None
    about = {
        "query": query,
        "names": list(lifted.names),
        "visible": lifted.visible,
        "schema": lifted.schema,
        "reasons": [[reason.code, reason.detail] for reason in lifted.reasons],
    }
    return about, handles


def _recalled(noted: Any, handles: Callable[[], Sequence[object]]) -> Lifted | None:
    try:
        rel, order = from_plain(noted["query"], lambda position: Awaited(handles, position))
        reasons = tuple(Reason(str(code), str(detail)) for code, detail in noted["reasons"])
        return Lifted(rel, order, tuple(noted["names"]), int(noted["visible"]), str(noted["schema"]), reasons)
    except (KeyError, IndexError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
