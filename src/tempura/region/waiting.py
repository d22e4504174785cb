"""Why a region does not go on: who waits for whom, from what its workers say of themselves."""

from collections.abc import Mapping
from typing import Any

from tempura.region.graph import Graph


def why(graph: Graph, told: Mapping[str, Mapping[str, Any]]) -> str:
    """One line per worker that does nothing: what it waits for, and, first, those that nobody keeps waiting: what they wait for is the
    cause."""
    lines = [(len(_waits_for(graph, name, about)), _line(graph, name, about)) for name, about in told.items()]
    return "\n".join(line for _, line in sorted(lines, key=lambda found: found[0]) if line) or "Nobody waits."


def _waits_for(graph: Graph, name: str, about: Mapping[str, Any]) -> list[str]:
    """The workers that a worker waits for."""
    if about["is"] in ("starved", "replaying", "aligning"):
        missing = {channel for channels in about["unaligned"].values() for channel in channels}
        channels = [c for c in graph.inputs(name) if not about["waiting"][c.id] and (not missing or c.id in missing)]
        return sorted({c.sender for c in channels})
    if about["is"] == "blocked":
        return sorted({c.receiver for c in graph.outputs(name) if c.id in about["full"]})
    return []


def _line(graph: Graph, name: str, about: Mapping[str, Any]) -> str:
    others = ", ".join(_waits_for(graph, name, about))
    match about["is"]:
        case "paused":
            return f"{name} is paused: {', '.join(about['reasons'])}"
        case "failed":
            failure = about["failure"]
            what = "row" if failure["exact"] else "one of the rows"
            reason = failure["trace"].strip().splitlines()[-1]
            return f"{name} failed at {what} {', '.join(failure['rows'])}: {reason}"
        case "lost":
            return f"{name} does not answer: its process is gone or was never started"
        case "starved":
            return f"{name} waits for input from {others}"
        case "aligning":
            markers = ", ".join(sorted(about["unaligned"]))
            return f"{name} waits for marker {markers} from {others}"
        case "replaying":
            return f"{name} does again what it did before it was restarted" + (
                f", and waits for {others}" if others else ""
            )
        case "blocked":
            return f"{name} waits for room: {others} has not processed what was sent"
    return ""
