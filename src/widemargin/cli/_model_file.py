"""Model files: a zip of plain types written by skops, which runs no code when it is read."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from widemargin._messages import UserError, listing
from widemargin.assess._latent_scores import Reading
from widemargin.assess._left_out import LeftOutValues
from widemargin.assess._refits import RefitValues
from widemargin.assess.latent_machine import LatentFunctions
from widemargin.assess.probability import Calibration
from widemargin.assess.record import Record
from widemargin.estimators._votes import BaseVotes, StumpVotes
from widemargin.sources.encoding import Encoding, Task
from widemargin.sources.whole_file import check_is_file, write_whole
from widemargin.tuning.gradient import Tuning

FORMAT = "widemargin-model-1"


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
        write_whole(path, lambda handle: handle.write(dumped))


def load_model(path: Path) -> SavedModel:
    """Read a model file; refuse one with types that are not scikit-learn's or widemargin's."""
    import skops.io

    check_is_file(path)
    content = path.read_bytes()
    try:
        foreign = sorted(set(skops.io.get_untrusted_types(data=content)) - set(trusted_types()))
        loaded = None if foreign else skops.io.loads(content, trusted=trusted_types())
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is damaged, or no model file at all: {error}. "
            "Model files are written by 'widemargin fit' and 'widemargin report'."
        ) from None
    if foreign:
        raise UserError(
            f"{path} was not loaded: it holds types that could run code of somebody else's: "
            f"{listing(foreign, most=20)}."
        )
    if not isinstance(loaded, dict) or loaded.get("format") != FORMAT:
        raise UserError(f"{path} is a skops file, but not written by 'widemargin fit' or 'report'.")
    # Files of version 0.1 before there were dates do not name them.
    columns, levels, fill = loaded["columns"], loaded["levels"], loaded["fill"]
    encoding = Encoding(columns, levels, fill, loaded.get("dates", []))
    return SavedModel(loaded["pipeline"], loaded["task"], loaded["target"], encoding)


def trusted_types() -> list[str]:
    """Return the types of ours that a model file may hold; skops knows scikit-learn's.

    Machines and the plain records that they keep. A kernel that is a function of the user's is
    not among them: skops lists it as a type of its own.
    """
    import widemargin as wm

    quadratic = (wm.SVC, wm.NuSVC, wm.SVR, wm.NuSVR, wm.LinearSVC)
    programs = (wm.LOOSVC, wm.AdaptiveMarginSVC, wm.LPSVC, wm.NuLPSVC)
    others = (wm.OrdinalSVC, wm.CumulativeLinkClassifier, wm.MeanFieldGPClassifier)
    boosting = (wm.AdaBoostClassifier, wm.RBFNetClassifier, StumpVotes, BaseVotes)
    planes = (wm.MaxMarginClassifier, wm.PerceptronClassifier)
    machines = (*quadratic, *programs, *others, *planes, *boosting)
    answers = (wm.loo.LOOResult, LeftOutValues, RefitValues, Calibration, Reading, Tuning)
    records = (wm.Certificate, wm.kernels.Kernel, Record, LatentFunctions, *answers)
    return [f"{cls.__module__}.{cls.__qualname__}" for cls in machines + records]
