"""A query cut into paths, the pace of each, and what it is worth: as text, as plain data, as a picture."""

from collections.abc import Sequence
from html import escape

from tempura.display import DisplayNode
from tempura.pace.cut import Cut, Operator, Path, Segment
from tempura.pace.goal import Plan

_WIDTH, _HEIGHT, _MARGIN = 640, 360, 56


def cut_tree(cut: Cut, paces: Sequence[int] = (), worth: Sequence[str] = ()) -> DisplayNode:
    """The segments of a query as a tree, the result on top; one that is used again is named only. ``paces`` and ``worth`` are notes of the
    paths."""
    seen: set[int] = set()

    def of_segment(segment: Segment) -> DisplayNode:
        again = segment.number in seen
        seen.add(segment.number)
        children = () if again else tuple(map(of_path, segment.paths))
        return DisplayNode(f"s{segment.number} {segment.name}", children=children)

    def of_path(path: Path) -> DisplayNode:
        notes = [("pace", str(paces[path.number]))] if paces else []
        notes += [("incrementability", worth[path.number])] if worth and worth[path.number] else []
        below = () if path.source is None else (of_segment(cut.segments[path.source]),)
        return DisplayNode(f"path p{path.number} from {path.name}", tuple(notes), below)

    return of_segment(cut.result)


def explain_paces(plan: Plan) -> str:
    """The plan as text: what was asked, what is expected, the paths with their paces, and the points that the search came by. Work is in
    parts of what one flush of all data takes; ``incrementability`` is what a step more would save of the final work per total work."""
    chosen = plan.chosen
    lines = [
        f"paces by {plan.strategy} for {plan.goal}: {'met' if plan.meets else 'not met'}",
        f"final work {_part(plan, chosen.final)}, total work {_part(plan, chosen.total)} of one batch",
        *cut_tree(plan.cut, plan.paces, _worths(plan)).lines(),
    ]
    if len(plan.curve) > 1:
        lines += ["", "final  total  raised"]
    for point in plan.curve if len(plan.curve) > 1 else ():
        raised = "" if point.raised is None else f"p{point.raised} to {point.paces[point.raised]}"
        mark = "  <- chosen" if point.paces == plan.paces else ""
        lines.append(f"{_part(plan, point.final):<6} {_part(plan, point.total):<6} {raised}{mark}")
    return "\n".join(lines)


def _part(plan: Plan, work: float) -> str:
    return f"{work / max(plan.batch, 1e-9):.3f}"


def _worths(plan: Plan) -> list[str]:
    found = [plan.marginal.get(path) for path in plan.cut.paths]
    return ["" if worth is None else f"{worth:.3g}" for worth in found]


def paces_json(plan: Plan) -> dict[str, object]:
    """The plan as plain data. Work is in the unit of the simulation; infinite incrementability is the text ``inf``."""

    def number(value: float | None) -> float | str | None:
        return value if value is None or abs(value) != float("inf") else str(value)

    return {
        "strategy": plan.strategy,
        "goal": {"final_work": plan.goal.final_work, "total_work": plan.goal.total_work},
        "meets": plan.meets,
        "batch": plan.batch,
        "final": plan.chosen.final,
        "total": plan.chosen.total,
        "paths": [
            {
                "path": path.number,
                "from": path.name,
                "into": path.into,
                "below": [child.number for child in plan.cut.below(path)],
                "pace": plan.paces[path.number],
                "incrementability": number(plan.marginal.get(path)),
            }
            for path in plan.cut.paths
        ],
        "segments": [{"segment": s.number, "name": s.name, "operators": _operators(s.root)} for s in plan.cut.segments],
        "curve": [
            {"paces": list(p.paces), "final": p.final, "total": p.total, "raised": p.raised}
            | {"incrementability": number(p.incrementability)}
            for p in plan.curve
        ],
        "effort": {"simulated": plan.effort.simulated, "priced": plan.effort.priced},
    }


def _operators(node: Operator | Path) -> dict[str, object]:
    if isinstance(node, Path):
        return DisplayNode(f"path p{node.number} from {node.name}").to_json()
    return {"label": node.rel.label, "notes": {}, "children": [_operators(input) for input in node.inputs]}


def paces_picture(plan: Plan) -> str:
    """The curve of final against total work with the chosen point on it, and the paths, as an HTML page that needs nothing else."""
    text = escape(explain_paces(plan))
    title = escape(f"paces by {plan.strategy} for {plan.goal}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>'
        f'<body style="font-family:monospace">{_curve(plan)}<pre>{text}</pre></body></html>'
    )


def _curve(plan: Plan) -> str:
    """The points that the search came by: total work to the right, final work upward."""
    totals = [point.total / plan.batch for point in (*plan.curve, plan.chosen)]
    low, high = min(totals), max(totals)
    span = max(high - low, 0.01)

    def x(total: float) -> float:
        return _MARGIN + (total / plan.batch - low) / span * (_WIDTH - 2 * _MARGIN)

    def y(final: float) -> float:
        return _HEIGHT - _MARGIN - min(1.0, final / plan.batch) * (_HEIGHT - 2 * _MARGIN)

    dots = "".join(
        f'<circle cx="{x(p.total):.1f}" cy="{y(p.final):.1f}" r="3" fill="#888"><title>{list(p.paces)}</title></circle>'
        for p in plan.curve
    )
    chosen = plan.chosen
    axes = (
        f'<path d="M{_MARGIN} {_MARGIN}V{_HEIGHT - _MARGIN}H{_WIDTH - _MARGIN}" fill="none" stroke="#000"/>'
        f'<text x="{_MARGIN}" y="{_HEIGHT - 20}">total work {low:.2f} to {low + span:.2f} of a batch</text>'
        f'<text x="8" y="{_MARGIN - 12}">final work, 0 to 1</text>'
    )
    bound = ""
    if plan.goal.final_work is not None:
        level = y(plan.goal.final_work * plan.batch)
        bound = f'<path d="M{_MARGIN} {level:.1f}H{_WIDTH - _MARGIN}" stroke="#c00" stroke-dasharray="4"/>'
    point = f'<circle cx="{x(chosen.total):.1f}" cy="{y(chosen.final):.1f}" r="6" fill="#06c"/>'
    return f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img">{axes}{bound}{dots}{point}</svg>'
