"""Data sets in parts: arrays, files larger than memory, Dask collections."""

from __future__ import annotations

from widemargin.sources.arrays import from_arrays
from widemargin.sources.checkpoint import Checkpoint
from widemargin.sources.dataset import Dataset, TrainingSource
from widemargin.sources.describe import Description
from widemargin.sources.engines import Engine, Threads
from widemargin.sources.files import from_files
from widemargin.sources.on_dask import DaskEngine, from_dask
from widemargin.sources.reading.rows import Rows
from widemargin.sources.recognise import as_dataset
from widemargin.sources.tables.letor import RankingData, read_letor
from widemargin.sources.training_part import TrainingPart

__all__ = [
    "Checkpoint",
    "DaskEngine",
    "Dataset",
    "Description",
    "Engine",
    "RankingData",
    "Rows",
    "Threads",
    "TrainingPart",
    "TrainingSource",
    "as_dataset",
    "from_arrays",
    "from_dask",
    "from_files",
    "read_letor",
]
