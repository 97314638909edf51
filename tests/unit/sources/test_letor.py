"""Files of ranked queries: what is read, and what is refused with the number of its line."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from widemargin.sources import RankingData, read_letor
from widemargin.sources.tables import letor

SMALL = b"""# a file begins with a comment
2 qid:10 1:0.5 3:-1e-3 #docid = GX029-35-5894638 inc = 1 prob = 0.02

0 qid:10 2:.25\t4:0
   1   qid:3   1:+7   # spaces
0 qid:3
"""


@pytest.fixture
def write(tmp_path):
    def _write(content: bytes, name: str = "rows.txt"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return _write


def _check_small(data: RankingData) -> None:
    expected = [[0.5, 0, -1e-3, 0], [0, 0.25, 0, 0], [7, 0, 0, 0], [0, 0, 0, 0]]
    np.testing.assert_array_equal(data.X.toarray(), expected)
    assert data.X.nnz == 4  # a zero that is written out is not kept
    assert data.y.tolist() == [2, 0, 1, 0]
    assert data.y.dtype.kind == "i"
    assert data.qid.tolist() == [10, 10, 3, 3]


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"], ids=["unix", "windows"])
@pytest.mark.parametrize("last", [True, False], ids=["newline", "no newline"])
def test_rows_comments_and_spaces(write, ends: bytes, last: bool) -> None:
    content = SMALL if last else SMALL.rstrip()
    _check_small(read_letor(write(content.replace(b"\n", ends))))


def test_compressed_files_are_known_by_their_content(write) -> None:
    _check_small(read_letor(write(gzip.compress(SMALL), "rows.txt.gz")))
    _check_small(read_letor(str(write(gzip.compress(SMALL), "rows.txt"))))


@pytest.mark.parametrize("chunk", [1, 100, 1 << 22])
def test_equals_scikit_learn_whatever_the_chunks(tmp_path, monkeypatch, chunk: int) -> None:
    monkeypatch.setattr(letor, "CHUNK", chunk)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 30)) < 0.4, rng.normal(size=(60, 30)), 0.0)
    y, qid = rng.integers(0, 4, 60), rng.integers(0, 9, 60)
    path = tmp_path / "rows.txt"
    dump_svmlight_file(X, y, str(path), query_id=qid, zero_based=False)
    ours = read_letor(path, n_features=30)
    theirs = load_svmlight_file(str(path), n_features=30, query_id=True, zero_based=False)
    np.testing.assert_array_equal(ours.X.toarray(), theirs[0].toarray())
    np.testing.assert_allclose(ours.X.toarray(), X, rtol=1e-15)  # 16 digits are written
    np.testing.assert_array_equal(ours.y, theirs[1])
    np.testing.assert_array_equal(ours.qid, theirs[2])


def test_width_type_and_first_number(write) -> None:
    path = write(b"1 qid:1 0:2 2:3\n0.5 qid:-4 1:1\n")
    X, y, qid = read_letor(path, zero_based=True, n_features=5, dtype=np.float32)
    assert X.shape == (2, 5)
    assert X.dtype == np.float32
    np.testing.assert_array_equal(X.toarray()[:, :3], [[2, 0, 3], [0, 1, 0]])
    assert y.tolist() == [1.0, 0.5]
    assert qid.tolist() == [1, -4]
    assert read_letor(path, zero_based=True).X.shape == (2, 3)


GOOD = b"# head\n1 qid:1 1:0.5\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"2 1:0.5", "no query after the grade '2'.*load_svmlight_file"),
        (b"2", "no query after the grade '2'"),
        (b"2 qid:A7 1:0.5", "the query 'qid:A7' is not a whole number"),
        (b"2 qid: 1:0.5", "the query 'qid:' is not a whole number"),
        (b"good qid:1 1:0.5", "the grade 'good' is not a number"),
        (b"nan qid:1 1:0.5", "the grade 'nan' is not finite"),
        (b"1 qid:1 1:0.5 3", "'3' is not <feature>:<value>"),
        (b"1 qid:1 1:0.5 x:3", "'x:3' is not <feature>:<value>"),
        (b"1 qid:1 1:0.5:7 3", "'1:0.5:7' is not <feature>:<value>"),
        (b"1 qid:1 1: 0.5", "'1:' is not <feature>:<value>"),
        (b"1 qid:1 -1:0.5", "'-1:0.5' is not <feature>:<value>"),
        (b"1 qid:1 1:0.5 2:NULL", "feature 2 has the value 'NULL'; it must be a finite number"),
        (b"1 qid:1 1:0.5 2:1,5", "feature 2 has the value '1,5'"),
        (b"1 qid:1 1:nan", "feature 1 has the value 'nan'"),
        (b"1 qid:1 1:1e999", "feature 1 has the value '1e999'"),
        (b"1 qid:1 0:0.5", "feature 0, but features are numbered from 1; give zero_based=True"),
        (b"1 qid:1 2:0.5 1:3", "feature 1 after feature 2; their numbers must increase"),
        (b"1 qid:1 2:0.5 2:3", "feature 2 after feature 2"),
        (b"1 qid:1 9:0.5", "feature 9, but n_features=8"),
        (b"\xff\xfe qid:1 1:2", "is not a number"),
    ],
)
def test_a_bad_line_is_refused_with_its_number(write, line: bytes, message: str) -> None:
    path = write(GOOD + line + b"\n" + GOOD)
    with pytest.raises(ValueError, match=rf"rows.txt, line 3: .*{message}"):
        read_letor(path, n_features=8)


def test_the_line_is_right_after_chunks(write, monkeypatch) -> None:
    monkeypatch.setattr(letor, "CHUNK", 10)
    for bad in (b"1 qid:1 2:0.5 1:3\n", b"1 qid:1 1:one\n", b"1 qid:1 0:1\n"):
        with pytest.raises(ValueError, match="line 41: "):
            read_letor(write(20 * GOOD + bad))


@pytest.mark.parametrize("content", [b"", b"# only a comment\n\n"])
def test_a_file_without_rows_is_refused(write, content: bytes) -> None:
    with pytest.raises(ValueError, match=r"rows.txt holds no rows; a row is '<grade> qid:"):
        read_letor(write(content))


def test_bad_arguments_are_named(write, tmp_path) -> None:
    path = write(SMALL)
    for value in (0, -3, 2.5, "4"):
        with pytest.raises(ValueError, match=r"^n_features must be a positive integer or None"):
            read_letor(path, n_features=value)
    with pytest.raises(ValueError, match=r"^zero_based must be True or False"):
        read_letor(path, zero_based="auto")
    with pytest.raises(ValueError, match=r"^dtype must be"):
        read_letor(path, dtype=int)
    with pytest.raises(FileNotFoundError):
        read_letor(tmp_path / "missing.txt")
