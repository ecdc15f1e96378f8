"""Why pods have no place, as values, and in the words of Kueue (notFitMessage, multiLayerNotFitMessage)."""

from typing import NamedTuple

from zonewise_scheduler.queue.topology.excluded import Excluded


class LayerFit(NamedTuple):
    """How many slices of one layer would fit, were there no others."""

    level: str
    fits: int
    wanted: int


class Refused(NamedTuple):
    """Why there is no placement, told of the first set that finds none; nothing is placed of the others either."""

    pod_set: str
    topology: str
    problem: str = ""
    """Why the request makes no sense, or why a node cannot be replaced; "": there is too little room."""
    level: str = ""
    """The level of which one domain must hold all; "": all of the topology together has too little room."""
    domain: tuple[str, ...] = ()
    """Of that level the one with the most room, by its values from the outermost level on."""
    fits: int = 0
    """How many slices fit in that domain, or in all."""
    wanted: int = 0
    """How many slices there are."""
    size: int = 1
    """Pods of a slice."""
    layers: tuple[LayerFit, ...] = ()
    """Where there are several layers of slices: what fits of each in the domain with the most room."""
    excluded: Excluded = Excluded()

    def __str__(self) -> str:
        """Return the words of Kueue's message."""
        if self.problem:
            return self.problem
        unit = "pod" if self.size == 1 else "slice"
        said = f'topology "{self.topology}" '
        if self.layers:
            fits = (f"{one.fits}/{one.wanted} slice(s) fit on level {one.level}" for one in self.layers)
            said += "; ".join(["doesn't allow to fit", *fits])
        elif self.fits:
            said += f"allows to fit only {self.fits} out of {self.wanted} {unit}(s)"
        else:
            said += f"doesn't allow to fit any of {self.wanted} {unit}(s)"
        why = str(self.excluded)
        return f"{said}. {why}" if why else said
