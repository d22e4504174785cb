"""What the search tells whoever listens, and two who do: an account of its effort, and a trace."""

from collections import Counter
from dataclasses import dataclass

from tempura.memo.events import ClassCreated, ClassesMerged, ClassRewritten, Event
from tempura.plan.progressive import Effort
from tempura.tvr.views import View


@dataclass(frozen=True, slots=True)
class GroupCreated(Event):
    """A view is needed at a time; there are so many ways to compute or load it."""

    view: View
    time: int
    alternatives: int

    def __str__(self) -> str:
        return f"group {self.view.label} at {self.time}: {self.alternatives} alternatives"


@dataclass(frozen=True, slots=True)
class RuleMatched(Event):
    """The left side of a rule is equal to a view of an operator; its guard has not been asked."""

    rule: str
    view: View

    def __str__(self) -> str:
        return f"match {self.rule} on {self.view.label}"


@dataclass(frozen=True, slots=True)
class RuleApplied(Event):
    """A rule gave a way to compute a view."""

    rule: str
    view: View

    def __str__(self) -> str:
        return f"apply {self.rule} to {self.view.label}"


@dataclass(frozen=True, slots=True)
class PlanCosted(Event):
    """A whole plan was priced, in weighted nanoseconds of one core; None when it would depend on itself."""

    cost: int | None

    def __str__(self) -> str:
        return "plan depends on itself" if self.cost is None else f"plan costs {self.cost}"


class EffortCounter:
    """Counts what happens."""

    def __init__(self) -> None:
        self._counts = Counter[str]()

    @property
    def effort(self) -> Effort:
        """What was counted until now."""
        return Effort(**self._counts)

    def __call__(self, event: Event) -> None:
        match event:
            case ClassCreated():
                self._counts["classes"] += 1
            case ClassesMerged():
                self._counts["classes"] -= 1
            case GroupCreated():
                self._counts["groups"] += 1
                self._counts["alternatives"] += event.alternatives
            case RuleApplied() | ClassRewritten():
                self._counts["firings"] += 1
            case PlanCosted():
                self._counts["plans_costed"] += 1


class Trace:
    """Remembers what happens, one line per event."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def __str__(self) -> str:
        return "\n".join(map(str, self.events))
