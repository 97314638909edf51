"""Export of the playground's model as stand-alone Python code."""

from __future__ import annotations

import math

from widemargin.play.picture import Question

ROWS_A_LINE = 4


def python_code(question: Question) -> str:
    """Return a script that creates the points, fits the model and prints its quality."""
    machine = question.machine
    rows = [f"[{x!r}, {y!r}]" for x, y in question.points.tolist()]
    lines = [", ".join(rows[i : i + ROWS_A_LINE]) for i in range(0, len(rows), ROWS_A_LINE)]
    # The time limit serves the page; it is not a choice of the user.
    parameters = {k: v for k, v in question.parameters.items() if k != "time_limit"}
    written = {k: "np.inf" if v == math.inf else repr(v) for k, v in parameters.items()}
    arguments = ", ".join(f"{key}={value}" for key, value in written.items())
    points = ",\n    ".join(lines)
    names, asked = f"{machine.name}, loo", "print(model.certificate_)\nprint(loo.result(model))\n"
    if machine.uncertified:
        names, asked = machine.name, 'print("training accuracy", model.score(X, y))\n'
    return (
        "import numpy as np\n"
        f"from widemargin import {names}\n\n"
        f"X = np.array([\n    {points},\n])\n"
        f"y = np.array({question.labels.tolist()!r})\n\n"
        f"model = {machine.name}({arguments}).fit(X, y)\n"
        f"{asked}"
    )
