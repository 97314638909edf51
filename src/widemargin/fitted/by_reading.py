"""Models fitted on a data set in parts, which keep no samples and have no leave-one-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from widemargin.fitted.base import FittedModel
from widemargin.fitted.calibration import Calibration
from widemargin.fitted.record import Record


@dataclass(frozen=True, eq=False)
class ReadTraining(FittedModel):
    """Fit on a data set in parts; it can only be calibrated, by another pass over the data.

    Attributes
    ----------
    calibrate : callable
        Takes the calibration method and returns the calibration of each binary submodel.
    """

    calibrate: Callable[[str], list[Calibration]]

    refusal = (
        " needs the training rows in memory, and this model was fitted on a data set in parts: "
        "fit on an array (a sample of the rows will do)"
    )
    portable: ClassVar[bool] = False  # an unpickled model may have no access to the data

    def kept_data(self) -> None:
        """Return None: no samples are kept in memory."""
        return None

    def calibrations(self, method: str, purpose: str, record: Record) -> list[Calibration]:
        """Calibrate on a subsample, where fitted and leave-one-out values (nearly) coincide."""
        return self.calibrate(method)
