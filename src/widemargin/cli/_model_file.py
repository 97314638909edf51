"""Model files: zip archives of skops, which can be read without executing code."""

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
from widemargin.fitted.by_formula.process import RegressionProcess
from widemargin.fitted.by_response import Reading
from widemargin.fitted.calibration import Calibration
from widemargin.fitted.induced import InducedFunctions
from widemargin.fitted.latent import LatentFunctions, Prior
from widemargin.fitted.record import Record
from widemargin.solvers.gp_regression import LowRankPosterior
from widemargin.sources.tables.encoding import Encoding, Task
from widemargin.sources.whole_file import check_is_file, write_whole
from widemargin.tuning.gradient import Tuning

FORMAT = "widemargin-model-1"

# Paths of classes in files of earlier versions; each is still importable there.
FORMER_PATHS: tuple[str, ...] = ()


@dataclass(frozen=True)
class SavedModel:
    """Fitted pipeline together with the encoding of its input tables.

    Attributes
    ----------
    pipeline : sklearn.pipeline.Pipeline
        Pipeline fitted on the encoded features.
    task : {"classification", "regression"}
        Task of the pipeline.
    target : str
        Name of the target column.
    encoding : Encoding
        Encoding of a table as features.
    """

    pipeline: Any
    task: Task
    target: str
    encoding: Encoding

    def save(self, path: Path) -> None:
        """Write the model to a file, atomically."""
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
        except ValueError:  # the compression ratio is that of a zip bomb: store uncompressed
            dumped = skops.io.dumps(content)
        write_whole(path, lambda handle: handle.write(dumped))


def load_model(path: Path) -> SavedModel:
    """Read a model file; reject types that are not trusted ones of scikit-learn or widemargin."""
    import skops.io

    check_is_file(path)
    content = path.read_bytes()
    try:
        foreign = foreign_types(content, trusted_types())
        loaded = None if foreign else skops.io.loads(content, trusted=trusted_types())
    except Exception as error:  # the content of the file may be arbitrary
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
    except Exception as error:  # the types are trusted now, but the values are not
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> UserError:
    what = " ".join(str(error).split()) or type(error).__name__
    return UserError(
        f"{path} is damaged, or no model file at all: {what}. "
        "Model files are written by 'widemargin fit' and 'widemargin report'."
    )


def _checked(loaded: dict[str, Any]) -> SavedModel:
    """Return the model of a file, after checking that it can predict a sample of zeros."""
    # Early files of version 0.1 have no entry for dates.
    columns, levels, fill = loaded["columns"], loaded["levels"], loaded["fill"]
    encoding = Encoding(columns, levels, fill, loaded.get("dates", []))
    model = SavedModel(loaded["pipeline"], loaded["task"], loaded["target"], encoding)
    row = np.zeros((1, encoding.n_inputs))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about missing feature names and the like
        model.pipeline.predict(row)
        if model.task == "classification":
            model.pipeline.decision_function(row)
    return model


def trusted_types() -> list[str]:
    """Return the types of widemargin that a model file may contain.

    These are the estimators and the plain records that they keep. Kernels that are functions of the
    user are not included: skops lists them as types of their own.

    Files refer to types by these paths, so each path is part of the file format (tests/golden): a
    class that moves leaves an alias behind, and its old path is added to FORMER_PATHS.
    """
    import widemargin as wm

    quadratic = (wm.SVC, wm.NuSVC, wm.SVR, wm.NuSVR, wm.TubeSVR, wm.ReducedHullSVC)
    programs = (wm.LOOSVC, wm.AdaptiveMarginSVC, wm.LPSVC, wm.NuLPSVC)
    others = (wm.OneClassSVM, wm.OrdinalSVC, wm.CumulativeLinkClassifier)
    processes = (wm.MeanFieldGPClassifier, wm.GPRegressor)
    boosting = (wm.AdaBoostClassifier, wm.LPBoostClassifier, wm.RBFNetClassifier)
    ensembles = (StumpEnsemble, ClassifierEnsemble)
    planes = (wm.LinearSVC, wm.LinearSVR, wm.MaxMarginClassifier, wm.PerceptronClassifier)
    machines = (*quadratic, *programs, *others, *processes, *planes, *boosting, *ensembles)
    results = (wm.loo.LOOResult, LeftOutValues, Calibration, Reading, Tuning)
    parts = (LatentFunctions, InducedFunctions, Prior, RegressionProcess, LowRankPosterior)
    records = (wm.Certificate, wm.kernels.Kernel, Record, *parts, *results)
    return [*(f"{cls.__module__}.{cls.__qualname__}" for cls in machines + records), *FORMER_PATHS]
