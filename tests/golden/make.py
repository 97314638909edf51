"""Write the golden files of this version: small models, and what they answer.

``python -m tests.golden.make`` makes a folder of the name of the version, with a model file for
each machine of machines.py, one of ``widemargin fit``, and expected.json. Files of an earlier
version are never written again: that they still load is the point. ``--force`` overwrites the
folder of this version, which is right only before it is released.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import skops.io

import widemargin as wm
from tests.golden.machines import MACHINES, data

HERE = Path(__file__).resolve().parent
COMMAND = "fit_command"
TABLE = """age,town,member,churned
23,Ulm,yes,stays
31,Bonn,no,goes
,Ulm,yes,stays
45,Kiel,no,goes
52,Kiel,yes,goes
28,Ulm,no,stays
39,Bonn,yes,stays
61,Kiel,no,goes
33,Ulm,yes,stays
47,Bonn,no,goes
"""


def answers(model: Any, X: Any) -> dict[str, Any]:
    """Return what a model says about rows, and about itself, as JSON can hold it."""
    found: dict[str, Any] = {}
    for name in ("predict", "decision_function", "predict_proba"):
        if hasattr(model, name):
            found[name] = np.asarray(getattr(model, name)(X)).tolist()
    if getattr(model, "certificate_", None) is not None:
        found["certificate"] = _proved(model.certificate_)
    if hasattr(model, "certificates_"):
        found["certificates"] = [_proved(certificate) for certificate in model.certificates_]
    if hasattr(model, "loo_error"):
        found["loo_error"] = float(model.loo_error())
    return found


def _proved(certificate: Any) -> dict[str, Any]:
    """Return what a certificate says, without the way there."""
    names = ("problem", "primal", "dual", "relative_gap", "converged")
    return {name: getattr(certificate, name) for name in names}


def kept(name: str) -> Any:
    """Return a fitted machine of the list as it is to be kept: without its training data.

    What they are needed for, leave-one-out and probabilities, is asked before.
    """
    rows = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a perceptron on few rows may not settle
        model = MACHINES[name].fit(rows["X"], rows[MACHINES[name].y])
    answers(model, rows["new"])
    return model.compact() if hasattr(model, "compact") else model


def write_command(folder: Path) -> dict[str, Any]:
    """Train on a table as a user does; return what ``widemargin predict`` says about it."""
    from typer.testing import CliRunner

    from widemargin.cli import app

    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch) / "table.csv"
        table.write_text(TABLE, encoding="utf-8")
        model = folder / f"{COMMAND}.skops"
        trained = ["fit", table, "-t", "churned", "--one-hot", "--impute", "median", "-o", model]
        for command in (trained, ["predict", model, table]):
            done = CliRunner().invoke(app, [str(word) for word in command])
            if done.exit_code:
                raise SystemExit(done.output)
    return {"table": TABLE, "predictions": done.stdout}


def main() -> None:
    """Write the folder of this version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--force", action="store_true", help="overwrite the folder")
    parser.add_argument("--into", type=Path, default=HERE / wm.__version__, help="the folder")
    options = parser.parse_args()
    if options.into.exists() and not options.force:
        raise SystemExit(f"{options.into} is there already: old files must stay as they are")
    options.into.mkdir(parents=True, exist_ok=True)
    rows = data()
    expected: dict[str, Any] = {
        "data": {name: values.tolist() for name, values in rows.items()},
        "machines": {},
        "command": write_command(options.into),
    }
    for name, golden in MACHINES.items():
        model = kept(name)
        place = options.into / f"{name}.skops"
        skops.io.dump(model, place, compression=zipfile.ZIP_DEFLATED, compresslevel=9)
        expected["machines"][name] = {"y": golden.y, **answers(model, rows["new"])}
    text = json.dumps(expected, indent=1).replace("\n     ", " ").replace("\n    ]", " ]")
    (options.into / "expected.json").write_text(text + "\n", encoding="utf-8")
    size = sum(os.path.getsize(path) for path in options.into.iterdir())
    print(f"{len(MACHINES) + 1} models in {options.into}, {size:,} bytes")


if __name__ == "__main__":
    main()
