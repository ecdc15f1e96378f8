"""Why pods have no place, as values, and in the words of Kueue (notFitMessage, multiLayerNotFitMessage)."""

from typing import NamedTuple

from zonewise_scheduler.tas.snapshot.exclusion_stats import ExclusionStats


class LayerFit(NamedTuple):
    """How many slices of one layer would fit, were there no others."""

    level: str
    fit_count: int
    slice_count: int


class TopologyAssignmentFailure(NamedTuple):
    """Why there is no placement, told of the first set that finds none; nothing is placed of the others either."""

    pod_set: str
    topology: str
    problem: str = ""
    """Why the request makes no sense, or why a node cannot be replaced; "": there is too little room."""
    level: str = ""
    """The level of which one domain must hold all; "": all of the topology together has too little room."""
    domain: tuple[str, ...] = ()
    """Of that level the one with the most room, by its values from the outermost level on."""
    fit_count: int = 0
    """How many slices fit in that domain, or in all."""
    slice_count: int = 0
    """How many slices there are."""
    slice_size: int = 1
    """Pods of a slice."""
    layer_fits: tuple[LayerFit, ...] = ()
    """Where there are several layers of slices: what fits of each in the domain with the most room."""
    exclusions: ExclusionStats = ExclusionStats()

    def __str__(self) -> str:
        """Return the words of Kueue's message."""
        if self.problem:
            return self.problem
        unit = "pod" if self.slice_size == 1 else "slice"
        said = f'topology "{self.topology}" '
        if self.layer_fits:
            fits = (f"{one.fit_count}/{one.slice_count} slice(s) fit on level {one.level}" for one in self.layer_fits)
            said += "; ".join(["doesn't allow to fit", *fits])
        elif self.fit_count:
            said += f"allows to fit only {self.fit_count} out of {self.slice_count} {unit}(s)"
        else:
            said += f"doesn't allow to fit any of {self.slice_count} {unit}(s)"
        why = str(self.exclusions)
        return f"{said}. {why}" if why else said
