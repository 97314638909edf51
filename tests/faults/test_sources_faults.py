"""Real faults: damaged, missing, changed and unreadable files; writers that are killed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import widemargin
from widemargin import sources

SOURCE = str(Path(widemargin.__file__).parents[1])


def write_npy(folder, n=4000):
    rng = np.random.default_rng(0)
    for k in range(2):
        X = rng.normal(size=(n, 4))
        np.save(folder / f"X{k}.npy", X)
        np.save(folder / f"y{k}.npy", (X[:, 0] > 0).astype(np.int64))
    return folder / "X1.npy"


def write_parquet(folder, n=4000):
    rng = np.random.default_rng(0)
    for k in range(2):
        X = rng.normal(size=(n, 4))
        columns = {f"f{j}": X[:, j] for j in range(4)}
        table = pa.table({**columns, "y": X[:, 0] > 0})
        pq.write_table(table, folder / f"rows{k}.parquet", write_page_checksum=True)
    return folder / "rows1.parquet"


def open_npy(folder):
    return sources.from_files(f"{folder}/X*.npy", target=f"{folder}/y*.npy")


def open_parquet(folder):
    return sources.from_files(f"{folder}/*.parquet", target="y")


KINDS = {"npy": (write_npy, open_npy), "parquet": (write_parquet, open_parquet)}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def named(path):
    return re.escape(str(path))


def column_sums(part):
    return sum(X.sum(axis=0) for _, X, _, _ in part.blocks())


def scan(dataset):
    source = dataset.binary(*dataset.describe().classes.tolist())
    return source.run(column_sums, [()] * len(source.sizes))


@pytest.mark.parametrize("left", [0, 3, 60, 5000, -1], ids=lambda n: f"{n} bytes")
def test_truncated_files_are_named(kind, left, tmp_path):
    write, open_files = kind
    path = write(tmp_path)
    assert len(scan(open_files(tmp_path))) == 2
    size = path.stat().st_size
    os.truncate(path, left if left >= 0 else size - 1)
    with pytest.raises(ValueError, match=named(path)):
        scan(open_files(tmp_path))


@pytest.mark.parametrize("place", [0.0, 0.3, 0.7, 0.999], ids="{:.0%} in".format)
def test_overwritten_parquet_is_named(place, tmp_path):
    """Pages have checksums here, so that wrong numbers cannot pass for right ones."""
    path = write_parquet(tmp_path)
    size = path.stat().st_size
    with open(path, "r+b") as handle:
        handle.seek(int(place * (size - 64)))
        handle.write(b"\xa5" * 64)
    with pytest.raises(ValueError, match=named(path)):
        scan(open_parquet(tmp_path))


@pytest.mark.parametrize("header", [b"\x93NUMPY\x07", b"\x93NUMPY\x01\x00\x10\x00{'descr': 'oops"])
def test_npy_with_a_damaged_header_is_named(header, tmp_path):
    path = write_npy(tmp_path)
    with open(path, "r+b") as handle:
        handle.write(header)
    with pytest.raises(ValueError, match=named(path)):
        open_npy(tmp_path)


def test_npy_with_pickled_objects_is_refused_unread(tmp_path):
    path = write_npy(tmp_path)
    np.save(path, np.array([[Path]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=named(path)):
        open_npy(tmp_path)


def test_npy_with_something_behind_it_is_named(tmp_path):
    path = write_npy(tmp_path)
    with open(path, "ab") as handle:
        np.save(handle, np.eye(3))
    with pytest.raises(ValueError, match=named(path) + " holds 200 bytes behind"):
        open_npy(tmp_path)


def test_files_of_another_kind_are_named(tmp_path):
    (tmp_path / "rows.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"rows.parquet is neither a .npy nor a Parquet file"):
        open_parquet(tmp_path)


def test_missing_files_are_named(kind, tmp_path):
    write, open_files = kind
    with pytest.raises(FileNotFoundError, match="no file matches"):
        open_files(tmp_path)
    path = write(tmp_path)
    dataset = open_files(tmp_path)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=named(path) + " has been removed"):
        dataset.describe()
    with pytest.raises(FileNotFoundError, match="rows9"):
        sources.from_files(tmp_path / "rows9.npy", target=0)


def test_a_file_that_grows_between_scans_is_named(kind, tmp_path):
    write, open_files = kind
    path = write(tmp_path)
    dataset = open_files(tmp_path)
    dataset.describe()
    with open(path, "ab") as handle:
        handle.write(b"x")
    with pytest.raises(ValueError, match=named(path) + r" has changed .* bytes have become"):
        scan(dataset)


def test_a_file_rewritten_with_the_same_size_is_named(kind, tmp_path):
    write, open_files = kind
    path = write(tmp_path)
    dataset = open_files(tmp_path)
    dataset.describe()
    shutil.copyfile(path, tmp_path / "copy")
    os.replace(tmp_path / "copy", path)
    with pytest.raises(ValueError, match=named(path) + r" has changed .*it was written to"):
        scan(dataset)


def cut_while_reading(part, path):
    """Truncate the file after the first block has been read."""
    for first, *_ in part.blocks():
        if first == 0:
            os.truncate(path, 1000)


def test_a_file_cut_in_the_middle_of_a_scan_is_named(kind, tmp_path, monkeypatch):
    write, open_files = kind
    monkeypatch.setattr("widemargin.sources.reading.rows.BLOCK_BYTES", 4096)
    monkeypatch.setattr("widemargin.sources.reading.parquet.BLOCK_BYTES", 4096)
    path = write(tmp_path)
    dataset = open_files(tmp_path)
    source = dataset.binary(*dataset.describe().classes.tolist())
    with pytest.raises(ValueError, match=named(path)):
        source.run(cut_while_reading, [(path,), (path,)])


def test_memory_maps_whose_file_changes_are_named(tmp_path):
    path = write_npy(tmp_path)
    mapped = np.load(path, mmap_mode="r")
    dataset = sources.from_arrays(mapped, np.arange(len(mapped)) % 2)
    dataset.describe()
    os.utime(path, (1, 1))
    with pytest.raises(ValueError, match=named(path) + " has changed"):
        scan(dataset)


def test_a_memory_map_that_may_be_written_is_no_change(tmp_path):
    path = write_npy(tmp_path)
    mapped = np.load(path, mmap_mode="r+")
    mapped[0] = 17.0
    dataset = sources.from_arrays(mapped, np.arange(len(mapped)) % 2)
    (sums,) = scan(dataset)
    np.testing.assert_allclose(sums, np.array(mapped).sum(axis=0))


UNREADABLE = """
import os, sys
from widemargin import sources
if os.geteuid() == 0:
    os.setuid(65534)  # the superuser may read everything
try:
    sources.from_files(sys.argv[1], target=0)
except PermissionError as error:
    print(error.filename)
"""


def test_unreadable_files_are_named():
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        path = os.path.join(folder, "X.npy")
        np.save(path, np.eye(3))
        os.chmod(path, 0)
        done = _run(UNREADABLE, path)
        assert done.stdout.strip() == path, done.stderr


def _run(program, *arguments):
    return subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )


MEMORY = """
import os, resource, sys
from widemargin import sources

def peak():
    # A child inherits ru_maxrss from its parent; the high-water mark of /proc starts afresh.
    if os.path.exists("/proc/self/status"):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if "VmHWM" in line) / 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6

def scan(part):
    return sum(float(X.sum()) for _, X, _, _ in part.blocks())

def work(path, target):
    dataset = sources.from_files(path, target=target)
    source = dataset.binary(1, 0)
    source.run(scan, [()] * len(source.sizes))

work(*sys.argv[1:3])
before = peak()
work(*sys.argv[3:5])
print(peak() - before)
"""


@pytest.mark.parametrize("suffix", ["npy", "parquet"])
def test_a_large_file_does_not_enter_memory(suffix, tmp_path):
    """160 MB in one file, for Parquet even in one row group, are read within 80 MB more."""
    rng = np.random.default_rng(0)
    arguments = []
    for name, n in (("small", 4000), ("large", 4_000_000)):
        X = rng.standard_normal((n, 10), dtype=np.float32)
        y = np.arange(n, dtype=np.int8) % 2
        rows, target = tmp_path / f"{name}.{suffix}", tmp_path / f"{name}_target.npy"
        if suffix == "npy":
            np.save(rows, X)
            np.save(target, y)
        else:
            target = "label"
            table = pa.table({**{f"f{j}": X[:, j] for j in range(10)}, target: y})
            pq.write_table(table, rows, row_group_size=n, compression="lz4")
        arguments += [rows, target]
    done = _run(MEMORY, *arguments)
    assert done.returncode == 0, done.stderr
    print(f"{suffix}: {float(done.stdout):.0f} MB more for the large file")
    assert float(done.stdout) < 80


WRITER = """
import sys
import numpy as np
from widemargin.sources import Checkpoint

checkpoint = Checkpoint(sys.argv[1])
for k in range(10**9):
    checkpoint.save({"round": k, "w": np.full(200_000, float(k))})
    if k == 1:
        print("WRITING", flush=True)
"""


def test_a_writer_killed_at_any_moment_leaves_a_complete_checkpoint(tmp_path):
    path = tmp_path / "fit.checkpoint"
    rng = np.random.default_rng(0)
    rounds = []
    for _ in range(4):
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": SOURCE},
        )
        try:
            assert child.stdout.readline() == "WRITING\n"
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(float(rng.uniform(0, 0.2)))
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait()
            child.stdout.close()
        state = sources.Checkpoint(path).load()
        assert (state["w"] == state["round"]).all()
        assert len(state["w"]) == 200_000
        rounds.append(state["round"])
    assert max(rounds) > 1
