"""Demo data of ``widemargin fit --demo`` and ``widemargin report --demo``."""

from __future__ import annotations

import numpy as np

from widemargin.sources.tables.table import Column, Table


def breast_cancer() -> tuple[Table, str]:
    """Return the breast-cancer data of scikit-learn as a table, and its target column."""
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    columns: dict[str, Column] = {
        str(name): np.ascontiguousarray(bunch.data[:, j])
        for j, name in enumerate(bunch.feature_names)
    }
    columns["diagnosis"] = [str(bunch.target_names[label]) for label in bunch.target]
    return Table("scikit-learn's breast-cancer data", columns, len(bunch.target)), "diagnosis"
