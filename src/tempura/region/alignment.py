"""Which markers a worker has met on which channels, and which channels have to wait for the others."""

from collections.abc import Mapping

from tempura.region.messages import Marker


class Alignment:
    """The markers that a worker has met and not acted on. A channel on which one came is *blocked* until it has come on all that it
    waits for: those of its scope only, those of one port only if that is its kind. A channel that has ended counts as having it."""

    def __init__(self, ports: Mapping[str, int]) -> None:
        self._ports = ports
        self._met: dict[str, tuple[Marker, set[str]]] = {}
        self._done: dict[str, set[str]] = {}

    def meet(self, marker: Marker, channel: str, ended: set[str]) -> bool:
        """A marker comes on a channel. Whether it is time to act on it."""
        if marker.id in self._done:
            self._pass(marker.id, channel)
            return False
        _, channels = self._met.setdefault(marker.id, (marker, set()))
        channels.add(channel)
        return self._is_due(marker, channels, ended)

    def after_end(self, channel: str, ended: set[str]) -> list[Marker]:
        """The markers that need not wait any more now that a channel has ended."""
        return [m for m, met in list(self._met.values()) if channel in m.channels and self._is_due(m, met, ended)]

    def _is_due(self, marker: Marker, met: set[str], ended: set[str]) -> bool:
        if not any(waits & marker.channels <= met | ended for waits in self._waits(marker, met)):
            return False
        del self._met[marker.id]
        still = (marker.channels & set(self._ports)) - met - ended
        if still:
            self._done[marker.id] = set(still)
        return True

    def _waits(self, marker: Marker, met: set[str]) -> list[set[str]]:
        """Sets of channels, one of which has to have the marker."""
        if marker.alignment == "none":
            return [met]
        if marker.alignment == "all":
            return [set(self._ports)]
        ports = {self._ports[channel] for channel in met}
        return [{channel for channel, port in self._ports.items() if port == wanted} for wanted in ports]

    def _pass(self, id: str, channel: str) -> None:
        """A marker that was acted on comes on one more channel; after the last one it is forgotten."""
        self._done[id].discard(channel)
        if not self._done[id]:
            del self._done[id]

    @property
    def blocked(self) -> set[str]:
        """The channels that wait."""
        return {channel for marker, met in self._met.values() if marker.alignment != "none" for channel in met}

    @property
    def waiting_for(self) -> dict[str, list[str]]:
        """Per marker that is met and not aligned the channels on which it has not come."""
        return {
            id: sorted(c for c in self._ports if c in marker.channels and c not in met)
            for id, (marker, met) in self._met.items()
        }
