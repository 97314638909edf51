"""Files with drawn contents: rows in parts, ranked queries, tables of the command line."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.helpers.fuzzing import (
    REFUSED,
    bounded,
    count,
    fitted,
    kind_of,
    listening,
    refusals,
    refused_on_purpose,
    short_or_profile,
)
from tests.helpers.fuzzing_data import classifications, powers
from tests.helpers.fuzzing_truth import EPS
from widemargin import LinearSVC, sources
from widemargin._base.messages import UserError
from widemargin.cli import app
from widemargin.reporting.preparation import prepare
from widemargin.sources.reading import rows as _rows
from widemargin.sources.tables import letor as letor_module
from widemargin.sources.tables import table as tables

pytestmark = pytest.mark.fuzz

# ---------------------------------------------------------------- rows in parts

# Files hold numbers of one type: what a container adds to them is no matter of the file.
plain = classifications(containers=("float64", "float32"), most_rows=40, most_classes=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder that all problems of this file use, one after the other."""
    return tmp_path_factory.mktemp("parts")


def written(problem, cuts, kind, folder):
    """Write the rows in parts and return the arguments of fit."""
    X, y = np.asarray(problem.X), problem.codes
    parts = np.split(np.arange(problem.n), sorted(c % (problem.n + 1) for c in cuts))
    for old in folder.iterdir():
        old.unlink()
    if kind == "arrays":
        return (sources.from_arrays([X[p] for p in parts], [y[p] for p in parts]),)
    names = [f"x{j}" for j in range(problem.d)]
    for k, part in enumerate(parts):
        if kind == "npy":
            np.save(folder / f"part{k}.npy", np.column_stack([X[part], y[part].astype(X.dtype)]))
        else:
            write_parquet(folder / f"part{k}.parquet", names, X[part], y[part])
    if kind == "npy":
        return str(folder / "*.npy"), problem.d
    return str(folder / "*.parquet"), "label"


def write_parquet(path, names, X, y):
    """Write rows in groups of three."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {**{name: X[:, j] for j, name in enumerate(names)}, "label": y}
    pq.write_table(pa.table(columns), path, row_group_size=3)


@given(
    problem=plain,
    cuts=st.lists(st.integers(0, 40), max_size=4),
    kind=st.sampled_from(["arrays", "npy", "parquet"]),
    block=st.integers(1, 4000),
    loss=st.sampled_from(["hinge", "squared_hinge"]),
    C=powers(-3, 3),
)
@short_or_profile()
def test_fuzz_parts_give_the_optimum_of_the_array(folder, problem, cuts, kind, block, loss, C):
    name = f"LinearSVC from {kind}"
    given_ = written(problem, cuts, kind, folder)
    whole, read = (LinearSVC(loss=loss, C=C, tol=1e-8) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, bounded(problem, read):
        patch.setattr(_rows, "BLOCK_BYTES", block)
        rows, target = (*given_, None)[:2]
        if not fitted(name, read, _Labels(target), rows, {}):
            return
        if not fitted(f"{name}, array", whole, _Labels(problem.codes), np.asarray(problem.X), {}):
            return
    for k, (one, other) in enumerate(zip(read.certificates_, whole.certificates_, strict=True)):
        off = 1e-7 * max(1.0, abs(one.primal))
        off += rounding(read, problem.values, k) + rounding(whole, problem.values, k)
        assert one.dual <= other.primal + off
        assert other.dual <= one.primal + off
        if one.converged and other.converged:
            gap = max(one.gap, other.gap, 0.0)
            assert abs(one.primal - other.primal) <= gap + off


def rounding(model, X, k):
    """Return what rounding of the decision values can do to the objective of one hyperplane."""
    w, b = model.coef_[k], model.intercept_[k]
    error = 4 * (X.shape[1] + 4) * EPS * (1.0 + np.abs(X) @ np.abs(w) + abs(b))
    slope = 1.0 if model.loss == "hinge" else 2.0 * (1.0 + np.abs(X @ w + b)) + error
    return model.C * float(np.sum(slope * error))


class _Labels:
    """What `fitted` takes for a problem: an argument y of fit."""

    def __init__(self, y):
        self.y = y


# ---------------------------------------------------------------- ranked queries


def refused(name, error, said):
    """Count a refusal that was made on purpose and says what it is about."""
    assert refused_on_purpose(error), error
    assert said in str(error)
    count(name, REFUSED)
    refusals[name][re.sub(r"\S*(rows.txt|table.csv)", "FILE", kind_of(error))[:70]] += 1


WORDS = [
    *("1", "0", "2.5", "-1", "1e3", "7", ":", "a:b", "# comment", "\t", "", "é", "\x00"),
    *("qid:1", "qid:2", "qid:-3", "qid:x", "qid:99999999999999999999"),
    *("1:0.5", "2:1e-3", "3:-4", "2:nan", "2:1e999", "0:1", "1:", "1:0.5:7", "1:0x1p3"),
    "99999999999999999999:1",
]
words = st.sampled_from(WORDS)
rows_of_words = st.lists(st.lists(words, max_size=6).map(" ".join), max_size=8).map("\n".join)
good_rows = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 3),
        st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=8,
)


@given(text=st.one_of(rows_of_words, rows_of_words.map("1 qid:1 1:2\n".__add__), st.text()))
@short_or_profile()
def test_fuzz_letor_text(folder, text):
    path = folder / "rows.txt"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    count("read_letor", "problems")
    with bounded(text, "read_letor"), listening():
        try:
            data = sources.read_letor(path)
        except ValueError as error:
            refused("read_letor", error, "rows.txt")
            return
    assert data.X.shape[0] == len(data.y) == len(data.qid) >= 1
    assert np.isfinite(data.X.data).all()
    assert np.isfinite(data.y).all()


@given(rows=good_rows, chunk=st.integers(1, 200))
@short_or_profile()
def test_fuzz_letor_numbers_are_read_back(folder, rows, chunk):
    path = folder / "rows.txt"
    lines = [
        f"{grade} qid:{query} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(values))
        for grade, query, values in rows
    ]
    path.write_text("\n".join(lines))
    with pytest.MonkeyPatch.context() as patch, listening():
        patch.setattr(letor_module, "CHUNK", chunk)
        data = sources.read_letor(path)
    count("read_letor back", "problems")
    assert data.y.tolist() == [grade for grade, _, _ in rows]
    assert data.qid.tolist() == [query for _, query, _ in rows]
    width = max(len(values) for _, _, values in rows)
    wanted = np.array([[*values, *[0.0] * (width - len(values))] for _, _, values in rows])
    np.testing.assert_array_equal(data.X.toarray(), wanted)


# ---------------------------------------------------------------- tables

CELLS = [
    *("", "NA", "nan", "?", "none", "1", "0", "2", "-3.5", "1e308", "1e-320", "inf", "0x10"),
    *("yes", "no", "a b", "2024-05-31", "1_000", '"x"', "'", "é", "1,5", "  4 ", "True"),
]
cells = st.one_of(st.sampled_from(CELLS), st.floats(allow_nan=False).map(repr), st.text(max_size=6))


COLUMNS = {
    "labels": st.sampled_from(["yes", "no"]),
    "classes": st.sampled_from(["1", "2", "3"]),
    "numbers": st.floats(-1e6, 1e6).map(repr),
    "scales": st.floats(allow_nan=False).map(repr),
    "anything": cells,
}


@st.composite
def csv_texts(draw):
    """Tables with a few columns; some ragged, quoted, with gaps or without a header."""
    kinds = draw(st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4))
    delimiter = draw(st.sampled_from([",", ";", "\t", "|"]))
    odd = draw(st.integers(0, 9))
    header = [f"c{j}" for j in range(len(kinds))]
    lines = [[draw(cells) for _ in kinds] if odd == 0 else header]
    for _ in range(draw(st.integers(0, 14))):
        line = [draw(COLUMNS[kind]) for kind in kinds]
        if odd in (1, 2) and draw(st.integers(0, 5)) == 0:
            line = [*line, "1"] if odd == 1 else ["", *line[1:]]
        lines.append(line)
    return "\n".join(delimiter.join(line) for line in lines)


@given(text=st.one_of(csv_texts(), csv_texts(), st.text()), command=st.sampled_from(["fit"]))
@short_or_profile()
def test_fuzz_command_line_on_tables(folder, text, command):
    path = folder / "table.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    name = f"widemargin {command}"
    count(name, "problems")
    with bounded(text, name):
        out = folder / "model.skops"
        result = CliRunner().invoke(app, [command, str(path), "-t", "c0", "-o", str(out)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code == 0:
        assert "saved" in result.stdout
        return
    assert result.exit_code == 1, result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, result.stderr
    assert "Traceback" not in result.output
    count(name, REFUSED)
    refusals[name][re.sub(r"\S*table.csv", "FILE", lines[0])[:60]] += 1


@given(text=csv_texts(), target=st.integers(0, 3))
@short_or_profile()
def test_fuzz_preparation_of_a_report(folder, text, target):
    path = folder / "table.csv"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    name = "report's preparation"
    count(name, "problems")
    with bounded(text, name), listening():
        try:
            data = prepare(tables.read_table(path), f"c{target}")
        except UserError as error:
            refused(name, error, "")
            return
    assert np.isfinite(data.X).all()
    assert data.X.shape[0] == len(data.y) >= 2
