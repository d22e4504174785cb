"""What every search of one planning problem shares, whatever its methods and wherever it begins."""

from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.memo.events import Event, Listener
from tempura.memo.memo import Memo
from tempura.search.joins import Clusters, JoinOrders
from tempura.search.problem import Problem


class Space:
    """The classes of a problem's query and of what rules make of it, their estimated sizes, the prices, and who is told what happens."""

    def __init__(self, problem: Problem, model: CostModel | None = None, *listeners: Listener) -> None:
        self.problem = problem
        self.model = model or CostModel()
        self._listeners = listeners
        self.memo = Memo(self.tell)
        self.query = self.memo.add(problem.query)
        self.estimate = Estimator(problem.tables, self.memo.representative)
        self.clusters = Clusters(self.memo)
        self.orders = JoinOrders(self.model, self.estimate)

    def tell(self, event: Event) -> None:
        """Let every listener know."""
        for listener in self._listeners:
            listener(event)
