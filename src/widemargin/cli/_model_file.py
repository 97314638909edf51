"""Read and write model files: zip archives by skops, which execute no code when read."""

from __future__ import annotations

import warnings
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from widemargin._base.messages import UserError, listing
from widemargin.cli._model_guard import foreign_types
from widemargin.estimators.boosting.ensemble import ClassifierEnsemble, StumpEnsemble
from widemargin.fitted.base import LeftOutValues
from widemargin.fitted.by_response import Reading
from widemargin.fitted.calibration import Calibration
from widemargin.fitted.latent import LatentFunctions
from widemargin.fitted.record import Record
from widemargin.sources.tables.encoding import Encoding, Task
from widemargin.sources.whole_file import check_is_file, write_whole
from widemargin.tuning.gradient import Tuning

FORMAT = "widemargin-model-1"

# Where classes were when earlier versions wrote their files; each is still importable there.
FORMER_PATHS: tuple[str, ...] = ()


@dataclass(frozen=True)
class SavedModel:
    """A fitted pipeline together with what is needed to feed it from a table.

    Attributes
    ----------
    pipeline : sklearn.pipeline.Pipeline
        From the encoded matrix to predictions.
    task : {"classification", "regression"}
        What the pipeline does.
    target : str
        Name of the predicted column.
    encoding : Encoding
        From a table to the matrix.
    """

    pipeline: Any
    task: Task
    target: str
    encoding: Encoding

    def save(self, path: Path) -> None:
        """Write the model to a file, whole or not at all."""
        import skops.io

        content = {
            "format": FORMAT,
            "task": self.task,
            "target": self.target,
            "columns": self.encoding.columns,
            "levels": self.encoding.levels,
            "fill": self.encoding.fill,
            "dates": self.encoding.dates,
            "pipeline": self.pipeline,
        }
        dumped = skops.io.dumps(content, compression=zipfile.ZIP_DEFLATED)
        try:
            foreign_types(dumped, trusted_types())
        except ValueError:  # it deflates so well that it would be taken for a zip bomb
            dumped = skops.io.dumps(content)
        write_whole(path, lambda handle: handle.write(dumped))


def load_model(path: Path) -> SavedModel:
    """Read a model file; refuse one with types that are not scikit-learn's or widemargin's."""
    import skops.io

    check_is_file(path)
    content = path.read_bytes()
    try:
        foreign = foreign_types(content, trusted_types())
        loaded = None if foreign else skops.io.loads(content, trusted=trusted_types())
    except Exception as error:  # of somebody else's file, whatever it is
        raise _damaged(path, error) from None
    if foreign:
        raise UserError(
            f"{path} was not loaded: it holds types that no model file needs and that could run "
            f"code: {listing(foreign, most=20)}."
        )
    if not isinstance(loaded, dict) or loaded.get("format") != FORMAT:
        raise UserError(f"{path} is a skops file, but not written by 'widemargin fit' or 'report'.")
    try:
        return _checked(loaded)
    except Exception as error:  # as above: its types are known, its values are not
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UserError:
    what = " ".join(str(error).split()) or type(error).__name__
    return UserError(
        f"{path} is damaged, or no model file at all: {what}. "
        "Model files are written by 'widemargin fit' and 'widemargin report'."
    )


def _checked(loaded: dict[str, Any]) -> SavedModel:
    """Return the model of a file, after it has predicted a row of zeros."""
    # Files of version 0.1 before there were dates do not name them.
    columns, levels, fill = loaded["columns"], loaded["levels"], loaded["fill"]
    encoding = Encoding(columns, levels, fill, loaded.get("dates", []))
    model = SavedModel(loaded["pipeline"], loaded["task"], loaded["target"], encoding)
    row = np.zeros((1, encoding.n_inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of names that the row has not; it is no row of theirs
        model.pipeline.predict(row)
        if model.task == "classification":
            model.pipeline.decision_function(row)
    return model


def trusted_types() -> list[str]:
    """Return the types of ours that a model file may hold; skops knows scikit-learn's.

    Machines and the plain records that they keep. A kernel that is a function of the user's is
    not among them: skops lists it as a type of its own.

    A file names its types by these paths, so each is a promise (tests/golden): a class that moves
    leaves an alias behind, and its old path goes to FORMER_PATHS.
    """
    import widemargin as wm

    quadratic = (wm.SVC, wm.NuSVC, wm.SVR, wm.NuSVR, wm.TubeSVR, wm.LinearSVC, wm.ReducedHullSVC)
    programs = (wm.LOOSVC, wm.AdaptiveMarginSVC, wm.LPSVC, wm.NuLPSVC)
    others = (wm.OrdinalSVC, wm.CumulativeLinkClassifier, wm.MeanFieldGPClassifier)
    boosting = (wm.AdaBoostClassifier, wm.RBFNetClassifier, StumpEnsemble, ClassifierEnsemble)
    planes = (wm.MaxMarginClassifier, wm.PerceptronClassifier)
    machines = (*quadratic, *programs, *others, *planes, *boosting)
    results = (wm.loo.LOOResult, LeftOutValues, Calibration, Reading, Tuning)
    records = (wm.Certificate, wm.kernels.Kernel, Record, LatentFunctions, *results)
    return [*(f"{cls.__module__}.{cls.__qualname__}" for cls in machines + records), *FORMER_PATHS]
