"""Reading tables and turning them into the numbers a model sees."""

from __future__ import annotations

import builtins
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from widemargin._base.messages import UserError
from widemargin.sources.tables import table as tables
from widemargin.sources.tables.encoding import learn_encoding, read_target
from widemargin.sources.tables.table import Table, read_table
from widemargin.sources.whole_file import write_whole


@pytest.fixture
def written(tmp_path):
    """Write a file and return its path."""

    def write(content: str | bytes, name: str = "data.csv") -> Path:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def table(**columns) -> Table:
    values = {n: c if isinstance(c[0], str) else np.array(c, float) for n, c in columns.items()}
    return Table("t.csv", values, len(next(iter(columns.values()))))


# ---------------------------------------------------------------- CSV


def test_csv_with_quotes_blank_lines_and_spaces(written):
    t = read_table(written('name, x ,y\n"Smith, J.", 1,2.5\n\n"say ""hi""",-3e2, 4 \n'))
    assert list(t.columns) == ["name", "x", "y"]
    assert t.n_rows == 2
    assert t.columns["name"] == ["Smith, J.", 'say "hi"']
    assert_array_equal(t.columns["x"], [1.0, -300.0])
    assert_array_equal(t.columns["y"], [2.5, 4.0])


def test_csv_quoted_newline_is_one_field(written):
    t = read_table(written('a,b\n"two\nlines",1\n'))
    assert t.columns["a"] == ["two\nlines"]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_delimiter_is_found(written, delimiter):
    t = read_table(written(f"a{delimiter}b\n1{delimiter}2\n"))
    assert list(t.columns) == ["a", "b"]


def test_csv_byte_order_mark_is_not_part_of_the_name(written):
    assert list(read_table(written(b"\xef\xbb\xbfage,b\n1,2\n")).columns) == ["age", "b"]


@pytest.mark.parametrize("gap", ["", "NA", "nan", "NULL", "?", "None", " n/a "])
def test_csv_missing_numbers_are_nan(written, gap):
    x = read_table(written(f"x,y\n1,1\n{gap},2\n")).columns["x"]
    assert_array_equal(x, [1.0, np.nan])


def test_csv_none_is_a_word_among_words(written):
    t = read_table(written("garage,y\nbrick,1\nnone,2\n,3\n"))
    assert t.columns["garage"] == ["brick", "none", ""]


def test_csv_text_after_many_numbers_keeps_their_spelling(written, monkeypatch):
    monkeypatch.setattr(tables, "ROWS_AT_A_TIME", 2)
    t = read_table(written("code,x\n007,1\n1.50,2\n3,3\nseven,4\n5,5\n"))
    assert t.columns["code"] == ["007", "1.50", "3", "seven", "5"]
    assert_array_equal(t.columns["x"], [1, 2, 3, 4, 5])


def test_csv_underscored_digits_are_text(written):
    assert read_table(written("month,x\n2024_07,1\n")).columns["month"] == ["2024_07"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("a,b\n", "no rows of data"),
        ("a,b\n1,2\n3\n", "row 2 and the header differ in length: 1 against 2"),
        ("a,b,a\n1,2,3\n", "the header repeats 'a'"),
        (",b\n1,2\n", "column 1 has no name"),
        ("1,2\n3,4\n", "first line holds only numbers"),
        ('a,b\n"open,2\n', "line 2"),
        (b"a,b\n\xff\xfe,2\n", "not UTF-8"),
    ],
)
def test_csv_that_cannot_be_read(written, content, message):
    with pytest.raises(UserError, match=message):
        read_table(written(content))


def test_missing_file_names_the_nearest(written):
    path = written("a\n1\n", "train.csv")
    with pytest.raises(UserError, match=r"Did you mean 'train\.csv'"):
        read_table(path.with_name("tarin.csv"))


def test_folder_is_not_a_file(tmp_path):
    with pytest.raises(UserError, match="is a folder"):
        read_table(tmp_path)


# ---------------------------------------------------------------- Parquet


def test_parquet_columns(tmp_path):
    path = tmp_path / "data.bin"  # told by content, not by name
    columns = {
        "i": [1, None, 3],
        "b": [True, False, True],
        "s": ["u", None, "v"],
        "d": pa.array(["p", "q", "p"]).dictionary_encode(),
    }
    pq.write_table(pa.table(columns), path)
    t = read_table(path)
    assert_array_equal(t.columns["i"], [1, np.nan, 3])
    assert_array_equal(t.columns["b"], [1, 0, 1])
    assert t.columns["s"] == ["u", "", "v"]
    assert t.columns["d"] == ["p", "q", "p"]


def test_parquet_damaged(written):
    with pytest.raises(UserError, match="not a readable Parquet file"):
        read_table(written(b"PAR1 and then nothing of the kind"))


def test_parquet_without_pyarrow_names_the_extra(written, monkeypatch):
    real_import = builtins.__import__

    def without_pyarrow(name, *args, **kwargs):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real_import(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_pyarrow)
    with pytest.raises(UserError, match=r"widemargin\[dask\]"):
        read_table(written(b"PAR1...."))


# ---------------------------------------------------------------- encoding


def test_one_hot_levels_and_order():
    t = table(city=["b", "a", "b"], x=[1, 2, 3], y=[0, 1, 0])
    encoding = learn_encoding(t, target="y", one_hot=True)
    assert encoding.levels == {"city": ["a", "b"]}
    assert_array_equal(encoding.matrix(t), [[0, 1, 1], [1, 0, 2], [0, 1, 3]])


def test_unknown_level_is_none_of_them_and_is_named():
    encoding = learn_encoding(table(city=["a", "b"], y=[0, 1]), target="y", one_hot=True)
    with pytest.warns(UserWarning, match="'city'.*'c'"):
        assert_array_equal(encoding.matrix(table(city=["c", "b"])), [[0, 0], [0, 1]])


def test_columns_are_found_by_name_whatever_their_order():
    encoding = learn_encoding(table(a=[1, 2], b=[3, 4], y=[0, 1]), target="y")
    assert_array_equal(encoding.matrix(table(z=[9], b=[6], a=[5])), [[5, 6]])


def test_text_columns_are_named_with_the_fix():
    with pytest.raises(UserError, match=r"'city', e\.g\. 'Rome'.*--one-hot.*--drop 'city'"):
        learn_encoding(table(city=["Rome", "Oslo"], x=[1, 2], y=[0, 1]), target="y")


def test_missing_values_are_named_by_row_and_column():
    t = table(x=[1, np.nan, np.nan], city=["a", "", "b"], y=[0, 1, 0])
    message = r"3 missing values: row 2, column 'x'; row 3, column 'x'; row 2, column 'city'"
    with pytest.raises(UserError, match=message):
        learn_encoding(t, target="y", one_hot=True).matrix(t)


@pytest.mark.parametrize(("how", "value"), [("median", 2.0), ("mean", 4.0)])
def test_imputation_uses_the_training_column(how, value):
    t = table(x=[1, 2, 9, np.nan], city=["a", "b", "a", ""], y=[0, 1, 0, 1])
    encoding = learn_encoding(t, target="y", one_hot=True, impute=how)
    assert_array_equal(encoding.matrix(t)[3], [value, 0, 0])
    assert_array_equal(encoding.matrix(table(x=[np.nan], city=["b"])), [[value, 0, 1]])


def test_column_without_any_value_cannot_be_imputed():
    t = table(x=[np.nan, np.nan], y=[0, 1])
    with pytest.raises(UserError, match="'x' has no value at all"):
        learn_encoding(t, target="y", impute="mean")


def test_infinite_value_is_named_by_row():
    t = table(x=[1, np.inf], y=[0, 1])
    with pytest.raises(UserError, match="infinite value in row 2"):
        learn_encoding(t, target="y").matrix(t)


def test_too_many_levels_are_refused():
    t = table(name=[f"n{i}" for i in range(300)], y=list(range(300)))
    with pytest.raises(UserError, match=r"'name' has 300 different values.*--drop 'name'"):
        learn_encoding(t, target="y", one_hot=True)


def test_text_where_the_model_wants_numbers():
    encoding = learn_encoding(table(x=[1, 2], y=[0, 1]), target="y")
    with pytest.raises(UserError, match=r"'x' of t\.csv must be numbers.*'two'"):
        encoding.matrix(table(x=["1", "two"]))


def test_nothing_left_to_learn_from():
    with pytest.raises(UserError, match="no column left"):
        learn_encoding(table(x=[1, 2], y=[0, 1]), target="y", drop=["x"])


@pytest.mark.parametrize(
    ("values", "task", "labels"),
    [
        (["u", "v"], "classification", ["u", "v"]),
        ([0, 1, 1], "classification", [0, 1]),
        ([0.5, 1, 1], "regression", None),
        (list(range(30)), "regression", None),
    ],
)
def test_task_is_read_off_the_target(values, task, labels):
    y, found = read_target(table(y=values), "y")
    assert found == task
    if labels is not None:
        assert np.unique(y).tolist() == labels


def test_regression_on_words_is_refused():
    with pytest.raises(UserError, match="must be numbers for regression; 'u'"):
        read_target(table(y=["u", "v"]), "y", "regression")


# ---------------------------------------------------------------- output files


def test_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "out.csv"
    path.write_text("old")

    def half(handle):
        handle.write(b"half")
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="disk on fire"):
        write_whole(path, half)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["out.csv"]


def test_written_file_has_ordinary_permissions(tmp_path):
    plain, whole = tmp_path / "plain", tmp_path / "whole"
    plain.write_bytes(b"")
    write_whole(whole, lambda handle: handle.write(b"new"))
    assert whole.read_bytes() == b"new"
    assert whole.stat().st_mode == plain.stat().st_mode


def test_link_keeps_pointing_at_its_target(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    write_whole(link, lambda handle: handle.write(b"new"))
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_only_regular_files_are_replaced(tmp_path):
    with pytest.raises(UserError, match="not a regular file"):
        write_whole(Path(os.devnull), lambda handle: handle.write(b""))
    with pytest.raises(UserError, match="does not exist"):
        write_whole(tmp_path / "nowhere" / "x", lambda handle: handle.write(b""))
