"""Draw docs/images/flow.svg and flow_dark.svg: the functions that one fit calls.

Run: python docs/make_flow.py. tests/project/test_flow.py compares the pictures with what this
script draws, and the stations (boxes of the picture) with the functions that a fit calls, in order.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

IMAGES = Path(__file__).parent / "images"

# Functions that SVC().fit(X, y) calls, and their descriptions. Names are relative to widemargin.
CLASSIFIER = "estimators.svm.support.SupportClassifier"
STATIONS = [
    (f"{CLASSIFIER}.fit", "the steps below, in this order"),
    (
        "estimators.svm.classification.SVC._check_parameters",
        "validates all parameters, before the data",
    ),
    ("_base.validation.check_fit", "validates X, y and sample_weight"),
    ("_base.validation.canonical", "drops zero weights, merges equal samples, sorts"),
    ("problems.soft_margin.c_classification", "states the problem: targets, bounds, threshold"),
    ("kernels.rows.Rows.__init__", "the samples and their kernel"),
    ("_base.progress.Watch.__enter__", "starts the progress bar and the time limit"),
    ("_base.threads.worker_threads", "sets BLAS to one thread, returns a thread count"),
    ("solvers.soft_margin.solve", 'resolves method="auto"'),
    ("solvers.soft_margin.on_demand.solve", "pair steps on all samples; blocks beyond 5,000"),
    ("kernels.single_rows.single_rows", "samples, centred and scaled for kernel rows"),
    ("solvers.soft_margin.on_demand._Run.take_steps", "kernel rows are computed on demand"),
    ("solvers.soft_margin.smo_loops.take_steps", "compiled loop of bounded length, no GIL"),
    ("solvers.base.Budget.spend", "counts steps, checks the time limit and Ctrl-C"),
    ("solvers.soft_margin.on_demand._Run.sum_again", "sums decision values again, in float64"),
    ("estimators.svm.proof.without_doubt", "estimates the gap and its rounding errors"),
    (f"{CLASSIFIER}._keep_machines", "sets support_, dual_coef_, intercept_"),
    ("fitted.record.Record.__init__", "keeps samples, problem and dual variables"),
]
REPEATED = ("solvers.soft_margin.on_demand._Run.take_steps", "solvers.base.Budget.spend")
COMPILED = "solvers.soft_margin.smo_loops.take_steps"
# Functions that compute results from the record after the fit.
LATER = [
    ("estimators.svm.proof.Solution.certificate", "primal, dual and gap with rounding errors"),
    ("assess.leave_one_out.result", "leave-one-out error and decision values"),
    ("fitted.calibration.fit_calibration", "probabilities, calibrated on these values"),
    ("assess.suspects.suspects", "samples whose label is doubtful"),
    ("tuning.search.LOOSearch.fit", "grid search by leave-one-out"),
    ("tuning.gradient.tune", "C and gamma by gradient descent on leave-one-out"),
    ("reporting.report.report", "an HTML report"),
]
LIGHT = {
    "ground": "#ffffff",
    "ink": "#1c2430",
    "soft": "#556070",
    "line": "#8a94a3",
    "rooms": {
        "estimators": "#dbe7fb",
        "problems": "#f9e3c4",
        "solvers": "#d8f0dc",
        "kernels": "#eadff7",
        "certificate": "#fbdcdc",
        "fitted": "#f3f0c9",
        "assess": "#d5eff2",
        "other": "#eceff3",
    },
}
DARK = {
    "ground": "#14181e",
    "ink": "#e6ebf2",
    "soft": "#a7b1bf",
    "line": "#6d7886",
    "rooms": {
        "estimators": "#23395f",
        "problems": "#5a421b",
        "solvers": "#1f4a2b",
        "kernels": "#45305f",
        "certificate": "#5f2828",
        "fitted": "#4d4a1c",
        "assess": "#1d4a50",
        "other": "#2b323c",
    },
}
# In pixels: width of the picture, left edge and width of boxes, row spacing, height of boxes.
WIDTH, LEFT, BOX, ROW, HEIGHT = 880, 120, 370, 38, 28
GUTTER = 30  # pixels between a box and its description; holds the arrow of the loop


def room_of(name: str) -> str:
    """Return the top-level package or module of a station."""
    return name.split(".")[0]


def text(x: float, y: float, words: str, kind: str) -> str:
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'


def station(y: float, name: str, words: str, colours: dict) -> list[str]:
    """Return the SVG elements of a box with the name of a function, and of its description."""
    room = room_of(name)
    colour = colours["rooms"].get(room, colours["rooms"]["other"])
    shown = name.removeprefix(f"{room}.")
    return [
        f'<rect x="{LEFT}" y="{y}" width="{BOX}" height="{HEIGHT}" rx="6" fill="{colour}"/>',
        text(LEFT + 10, y + 19, shown, "name"),
        text(LEFT + BOX + GUTTER, y + 19, words, "words"),
    ]


def column(top: float, stations: list[tuple[str, str]], colours: dict, arrows: bool) -> list[str]:
    """Return a column of stations; the first one of each room is labelled with the room's name."""
    drawn, before = [], ""
    for k, (name, words) in enumerate(stations):
        y = top + k * ROW
        if room_of(name) != before:
            before = room_of(name)
            drawn.append(text(LEFT - 12, y + 19, before, "room"))
        drawn += station(y, name, words, colours)
        if arrows and k:
            x = LEFT + 24
            drawn.append(f'<path d="M{x} {y - ROW + HEIGHT} V{y}" class="arrow"/>')
    return drawn


def loop(top: float) -> list[str]:
    """Return the arrow from the last repeated station back to the first."""
    names = [name for name, _ in STATIONS]
    first, last = (top + names.index(name) * ROW + HEIGHT / 2 for name in REPEATED)
    right = LEFT + BOX
    return [f'<path d="M{right} {last} H{right + GUTTER / 2} V{first} H{right}" class="arrow"/>']


def picture(colours: dict) -> str:
    """Return the picture as SVG; labels are text elements, not outlines."""
    top = 50
    below = top + len(STATIONS) * ROW + 44
    height = below + len(LATER) * ROW + 10
    style = (
        "text{font-family:system-ui,sans-serif;font-size:13px}"
        f".title{{font-size:16px;font-weight:600;fill:{colours['ink']}}}"
        f".name{{font-family:ui-monospace,monospace;fill:{colours['ink']}}}"
        f".words{{fill:{colours['soft']}}}"
        f".room{{fill:{colours['soft']};text-anchor:end}}"
        f".arrow{{stroke:{colours['line']};stroke-width:1.5;fill:none;marker-end:url(#head)}}"
    )
    head = (
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="{colours["line"]}"/></marker>'
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'width="{WIDTH}" height="{height}">',
        "<title>One fit, from the call to the certificate</title>",
        f"<style>{style}</style><defs>{head}</defs>",
        f'<rect width="{WIDTH}" height="{height}" fill="{colours["ground"]}"/>',
        text(LEFT, 30, "SVC().fit(X, y)", "title"),
        *column(top, STATIONS, colours, arrows=True),
        *loop(top),
        text(LEFT, below - 14, "later, computed from the record", "title"),
        *column(below, LATER, colours, arrows=False),
        "</svg>\n",
    ]
    return "\n".join(parts)


def main() -> None:
    (IMAGES / "flow.svg").write_text(picture(LIGHT), encoding="utf-8")
    (IMAGES / "flow_dark.svg").write_text(picture(DARK), encoding="utf-8")


if __name__ == "__main__":
    main()
