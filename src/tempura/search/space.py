"""What every search of one planning problem shares, whatever its methods and wherever it begins."""

from tempura.cost.estimate import Estimator
from tempura.cost.model import CostModel
from tempura.memo.memo import Memo
from tempura.search.problem import Problem


class Space:
    """The classes of a problem's query and of what rules make of it, their estimated sizes, and the prices."""

    def __init__(self, problem: Problem, model: CostModel | None = None) -> None:
        self.problem = problem
        self.model = model or CostModel()
        self.memo = Memo()
        self.query = self.memo.add(problem.query)
        self.estimate = Estimator(problem.tables, self.memo.representative)
