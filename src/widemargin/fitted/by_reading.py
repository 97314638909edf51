"""Models fitted on data that are read where they lie: nothing is kept, nothing is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from widemargin.fitted.base import FittedModel
from widemargin.fitted.calibration import Calibration
from widemargin.fitted.record import Record


@dataclass(frozen=True, eq=False)
class ReadTraining(FittedModel):
    """A fit on a data set in parts, which can only be calibrated, by reading it again.

    Attributes
    ----------
    calibrate : callable
        Takes the method of calibration; returns the calibration of each machine.
    """

    calibrate: Callable[[str], list[Calibration]]

    refusal = (
        " needs the training rows in memory, and this model was fitted on a data set in parts: "
        "fit on an array (a sample of the rows will do)"
    )
    portable: ClassVar[bool] = False  # the data cannot be reached from everywhere

    def kept_data(self) -> None:
        """Return that no samples are in memory."""
        return None

    def calibrations(self, method: str, purpose: str, record: Record) -> list[Calibration]:
        """Calibrate on a subsample; fitted and left-out values of so many samples coincide."""
        return self.calibrate(method)
