"""Binary problems of several classes: samples, labels and cost factors."""

from __future__ import annotations

import numpy as np

from widemargin._base.multiclass import class_pairs, pair_factors, pair_rows, rest_sides

CODES = np.array([0, 2, 1, 2, 0])
FACTORS = np.array([3.0, 5.0, 7.0])


def test_two_classes_are_one_pair_in_both_decompositions() -> None:
    assert rest_sides(2) == class_pairs(2) == [(1, 0)]
    assert rest_sides(3) == [(0, None), (1, None), (2, None)]


def test_a_pair_has_the_samples_and_the_factors_of_its_classes() -> None:
    rows, label = pair_rows(CODES, (1, 2))
    assert rows.tolist() == [1, 2, 3]
    assert label.tolist() == [-1.0, 1.0, -1.0]
    assert pair_factors(FACTORS, CODES, (1, 2)).tolist() == [3.0, 7.0, 5.0, 7.0, 3.0]


def test_a_class_against_all_others_has_all_samples_and_its_own_factor() -> None:
    rows, label = pair_rows(CODES, (2, None))
    assert rows.tolist() == [0, 1, 2, 3, 4]
    assert label.tolist() == [-1.0, 1.0, -1.0, 1.0, -1.0]
    assert pair_factors(FACTORS, CODES, (2, None)).tolist() == [1.0, 7.0, 1.0, 7.0, 1.0]
