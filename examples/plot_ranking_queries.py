r"""
Learning to rank documents by query
===================================

A search engine has to sort the documents that it finds for a query. For some queries, the documents
have been graded from 0 (useless) to 3 (exactly what was looked for). From these grades the order
for new queries is to be learned.

Only documents of the same query can be compared; ``qid`` contains the query of each document. The
corpus of this example is generated, and the estimator is the linear
:class:`~widemargin.OrdinalSVC`, on sparse TF-IDF features.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction.text import TfidfVectorizer

from widemargin import OrdinalSVC, metrics
from widemargin.sources import read_letor

# %%
# A graded corpus
# ---------------
# There are 15 topics and 90 queries, each of four words of a topic. The forty documents of a query
# are more or less about the topic. Some are written to inform, others to sell, and the latter often
# repeat the query. Within a query, a document has a higher grade if it is about the topic and if it
# informs, with noise. But some queries find mostly shops, and the assessors of these queries are
# generous.

STYLE = {
    "inform": ["study", "method", "results", "evidence", "review", "guide", "compared", "measured"],
    "sell": ["buy", "cheap", "offer", "discount", "free", "shipping", "deal", "price"],
}
TOPICS, WORDS, QUERIES, DOCUMENTS = 15, 20, 90, 40
rng = np.random.default_rng(0)
syllables = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
words = list(dict.fromkeys("".join(rng.choice(syllables, 3)) for _ in range(6000)))
topic_words = np.reshape(words[: TOPICS * WORDS], (TOPICS, WORDS))
other_words = words[TOPICS * WORDS :]


def document(topic, query, about, style):
    """Return the text of a document; `about` is its fraction of words on the topic."""
    on_topic = rng.binomial(50, about)
    text = [*rng.choice(topic_words[topic], on_topic), *rng.choice(other_words, 60 - on_topic)]
    text += [*rng.choice(STYLE[style], 1 + rng.poisson(3))]
    return " ".join(text + (query if style == "sell" and rng.random() < 0.3 else []))


queries, documents, grades, qid = [], [], [], []
for number in range(QUERIES):
    topic = number % TOPICS
    query = list(rng.choice(topic_words[topic], 4, replace=False))
    shops = rng.uniform(0.1, 0.9)
    for about in rng.uniform(0, 0.6, DOCUMENTS):
        style = "sell" if rng.random() < shops else "inform"
        usefulness = 5 * about - (0.8 if style == "sell" else 0.0) + rng.normal(0, 0.3)
        queries.append(" ".join(query))
        documents.append(document(topic, query, about, style))
        grades.append(np.searchsorted([2.0, 3.0, 3.8], usefulness + 3 * shops))
        qid.append(number)
y, qid = np.array(grades), np.array(qid)
print(f"{len(y)} documents of {QUERIES} queries; documents of each grade: {np.bincount(y)}")

# %%
# Features
# --------
# The features are the words of a document, weighted by TF-IDF, and the cosine between document and
# query. The cosine alone is the usual way to rank without learning, so it is the baseline.

to_features = TfidfVectorizer()
D = to_features.fit_transform(documents)
Q = to_features.transform(queries)
cosine = np.asarray(D.multiply(Q).sum(axis=1)).ravel()
X = sp.csr_matrix(sp.hstack([D, cosine[:, None]]))
print(f"X: {X.shape[0]} x {X.shape[1]}, {X.nnz / np.prod(X.shape):.2%} of it nonzero")

# %%
# Benchmark collections are files in the LETOR format, with one line per document. Here the corpus
# is written to such a file to show how it is read:

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "corpus.txt"
    dump_svmlight_file(X, y, str(path), query_id=qid, zero_based=False)
    print(path.read_text()[:100], "...")
    X, y, qid = read_letor(path)

# %%
# Training
# --------
# Sixty queries are used for training, thirty for testing. ``C_scale="total"`` makes ``C`` the cost
# of the mean slack of a pair, so that it does not depend on the number of pairs.

train, test = qid < 60, qid >= 60
machine = OrdinalSVC(kernel="linear", C=1000, C_scale="total", tol=1e-3)
machine.fit(X[train], y[train], qid=qid[train])
print(f"{machine.n_pairs_:.0f} pairs of documents")
print(machine.certificate_)

# %%
# The **preference risk** is the fraction of pairs, within a query, in the wrong order. A model that
# compares documents across queries is misled by the generous assessors: in its training data, shops
# go with high grades.

pooled = OrdinalSVC(kernel="linear", C=1000, C_scale="total", tol=1e-3).fit(X[train], y[train])
scores = {
    "cosine": cosine[test],
    "learned without qid": pooled.utility(X[test]),
    "learned with qid": machine.utility(X[test]),
}
for name, score in scores.items():
    risk = metrics.preference_risk(y[test], score, qid[test], scaled=True)
    print(f"{name:22}{risk:.1%} of the pairs of new queries in the wrong order")

# %%
# Results by query
# ----------------
# Left: one line per new query, from the risk of the cosine to that of the learned order; dotted
# lines are the means. Right: the largest weights. Words that inform (blue) have positive weights,
# words that sell (orange) negative ones, although the kind of a document is not part of the
# training data. Light grey bars are words of topics.


def risk_by_query(score):
    """Return the preference risk of each test query."""
    return np.array(
        [
            metrics.preference_risk(y[test][rows], score[rows], scaled=True)
            for rows in (qid[test] == query for query in np.unique(qid[test]))
        ]
    )


before, after = risk_by_query(scores["cosine"]), risk_by_query(scores["learned with qid"])
order = np.argsort(before)
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 5.6), layout="constrained")
place = np.arange(len(order))
left.hlines(place, after[order], before[order], color="0.75", linewidth=2, zorder=1)
left.scatter(before[order], place, color="#D55E00", label="cosine", zorder=2)
left.scatter(after[order], place, color="#0072B2", label="learned", zorder=2)
for values, colour in ((before, "#D55E00"), (after, "#0072B2")):
    left.axvline(values.mean(), color=colour, linestyle=":", zorder=0)
left.set(xlabel="fraction of pairs in the wrong order", yticks=[], xlim=(0, None))
left.set_ylabel("new queries")
left.set_title(f"better for {np.sum(after < before)} of {len(after)} queries")
left.legend(loc="lower right")

names = np.append(to_features.get_feature_names_out(), "COSINE")
most = np.argsort(np.abs(machine.coef_))[-18:]
most = most[np.argsort(machine.coef_[most])]
kinds = {word: kind for kind, group in STYLE.items() for word in group} | {"COSINE": "query"}
colours = {"inform": "#0072B2", "sell": "#D55E00", "query": "0.3"}
bars = [colours[kinds[name]] if name in kinds else "0.8" for name in names[most]]
right.barh(names[most], machine.coef_[most], color=bars)
right.axvline(0, color="0.3", linewidth=0.8)
right.set_xlabel("weight")
right.set_title("largest weights: informing (blue), selling (orange)")
plt.show()

# %%
# This model does not predict ranks. The grade of a document depends on the assessor, so thresholds
# on the utility have no meaning across queries, and ``predict`` raises an error:

try:
    machine.predict(X[test])
except ValueError as error:
    print(error)
