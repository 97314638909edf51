"""Check the prose of the source tree and of the documents against the rules of CONTRIBUTING.md.

The patterns catch habits that readers stumbled over: "a" for "per", algorithms that speak or know,
titles that are riddles, and private words where the field has a common one. They do not measure
good style; they keep these habits from coming back.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ("src", "benchmarks", "examples")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.rst")),
]

UNITS = (
    "block|bin|call|class|column|cut|feature|file|fit|group|iteration|level|line|machine|minute"
    "|model|page|pair|part|pass|point|problem|process|query|rank|round|row|sample|second|side|step"
    "|stump|task|test|thread|value|worker"
)
# Words after which "a class" is no "per class": "one of a class", "one is a class", ...
LINKS = (
    "after|and|are|as|at|be|before|between|by|for|from|gives|has|have|if|in|inside|into|is|makes"
    "|of|on|or|outside|over|per|takes|than|that|to|under|was|where|with|within|without"
)
THINGS = (
    "algorithm|bound|certificate|error|estimator|file|fit|function|kernel|loop|machine|message"
    "|method|model|pass|path|program|report|row|sample|search|solver|source|step|theorem|tuning"
)
SPEECH = (
    "answer|ask|believe|complain|hear|know|listen|refuse|say|speak|suspect|tell|think|want|wish"
)
HABITS = {
    'write "per", not "a"': re.compile(
        r"\b(?:one|two|three|four|once|twice|\d+)"
        rf"(?: (?!(?:{LINKS})\b)\w+){{0,2}} an? (?:{UNITS})\b"
    ),
    "algorithms compute, return, raise, reject; they do not speak or know": re.compile(
        rf"\b(?:{THINGS})s? (?:(?:{SPEECH})e?s?|gives? up)\b"
    ),
    'use the field\'s word: "leave-one-out prediction" or "value"': re.compile(
        r"\bleft-out (?:value|score|decision|prediction)s?\b"
    ),
    'write "cannot be computed", "is not available"': re.compile(r"\bnot to be had\b"),
    'write "one-vs-rest" or "the other classes"': re.compile(r"\bagainst the rest\b"),
    'write "suspicious sample"': re.compile(r"\bdoubtful (?:row|sample|point)s?\b"),
    "name the thing": re.compile(r"\b(?:takes? \w+ at its word|one door|a hair)\b"),
}
RIDDLE = re.compile(r"(?:What|Who|Where|When|Why|How)\b")


def docstrings(tree):
    """Yield (line, text) for each docstring of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                yield node.body[0].lineno, text


def comments(source):
    """Yield (line, text) for each run of comment lines: a sentence may go on in the next line."""
    start, run, last = 0, [], -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1 and run:
            yield start, " ".join(run)
            run = []
        if not run:
            start = token.start[0]
        run.append(token.string.lstrip("# "))
        last = token.start[0]
    if run:
        yield start, " ".join(run)


def habits(text):
    """Yield (line, found, advice) for each pattern that occurs in a text."""
    for advice, pattern in HABITS.items():
        for match in re.finditer(pattern, re.sub(r"\s", " ", text)):
            yield text[: match.start()].count("\n"), match.group(), advice


def complaints(path):
    """Return what a file would have to change, one line per finding."""
    text = path.read_text(encoding="utf-8")
    if path.name == "GLOSSARY.md":  # its last column lists the words to avoid
        text = re.sub(r"\|[^|\n]*\|$", "||", text, flags=re.MULTILINE)
    if path.suffix != ".py":
        return [f"{line + 1}: {found!r}: {advice}" for line, found, advice in habits(text)]
    found = []
    pieces = list(docstrings(ast.parse(text)))
    for start, piece in pieces:
        if RIDDLE.match(piece):
            found.append(f"{start}: {piece.splitlines()[0]!r}: state what it is or does")
    for start, piece in [*pieces, *comments(text)]:
        found += [f"{start + line}: {what!r}: {advice}" for line, what, advice in habits(piece)]
    return found


@pytest.mark.parametrize("folder", PYTHON)
def test_docstrings_and_comments(folder):
    files = sorted((ROOT / folder).rglob("*.py"))
    assert files
    found = [f"{p.relative_to(ROOT)}:{line}" for p in files for line in complaints(p)]
    assert not found, "\n".join(found)


def test_documents():
    found = [f"{p.relative_to(ROOT)}:{line}" for p in PAGES for line in complaints(p)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "Return one score a class.",
        "It makes two passes a round.",
        "The solver says that it\nhas converged.",
        "Where the method refuses, retrain.",
        "Left-out values, not to be had otherwise: the left-out values.",
    ],
)
def test_habits_are_found(text):
    assert list(habits(text))


@pytest.mark.parametrize(
    "text",
    [
        "Return one score per class.",
        "The values of one of a class.",
        "The model of a sample; one is a sample.",
        "The message names the argument.",
    ],
)
def test_plain_sentences_are_left_alone(text):
    assert not list(habits(text))
