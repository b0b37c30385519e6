"""What a trained model has to beat: the most frequent answer, and TF-IDF with a linear model."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from polytask.evaluate.metrics import THRESHOLD, Array, score
from polytask.tasks import Task

MAX_TRAIN_ROWS = 100_000
MAX_CHARACTERS = 20_000  # of one text
WORD = r"\w+|[?!]"  # one-letter words and the marks that carry a tone count too
HASH_BUCKETS = 2**20  # n-grams are hashed, so that the vocabulary of any corpus stays in bounded memory
INVERSE_PENALTY = {1: 1.0, 2: 10.0}  # by texts a row; 10 was best on a held-out fifth of Quora's train
MAX_COEFFICIENTS = 2_000_000  # of the linear model over all classes; the solver keeps some twenty copies


def majority(task: Task, train_targets: Array, dev_targets: Array) -> dict[str, float]:
    """The metrics on dev of always giving train's most frequent class, mean, or majority of each label."""
    _refuse_empty(task, train_targets)
    return score(task, _constant_answers(task, train_targets, len(dev_targets)), dev_targets)


def tfidf(
    task: Task,
    train_texts: Sequence[tuple[str, ...]],
    train_targets: Array,
    dev_texts: Sequence[tuple[str, ...]],
    dev_targets: Array,
    seed: int,
) -> dict[str, float]:
    """The metrics on dev of TF-IDF over words and word pairs with logistic (for values: ridge) regression.

    Above 100,000 training rows a sample of that many is used; `seed` draws it.
    """
    _refuse_empty(task, train_targets)
    if len(train_texts) > MAX_TRAIN_ROWS:
        chosen = np.random.default_rng(seed).choice(len(train_texts), MAX_TRAIN_ROWS, replace=False)
        chosen.sort()
        train_texts, train_targets = [train_texts[row] for row in chosen], train_targets[chosen]
    train_rows, dev_rows = _features(task, train_texts, dev_texts)
    if train_rows.shape[1] == 0:  # no text has a single word: nothing to learn from
        return majority(task, train_targets, dev_targets)
    answers = _linear_answers(task, train_rows, train_targets, dev_rows)
    return score(task, answers, dev_targets)


def _refuse_empty(task: Task, train_targets: Array) -> None:
    if len(train_targets) == 0:
        raise ValueError(f"{task.name}: a baseline needs at least one training row. Found none.")


def _constant_answers(task: Task, train_targets: Array, num_rows: int) -> Array:
    """The same answer for each of `num_rows` rows: [num_rows, C], or [num_rows] for a regression."""
    match task.kind:
        case "classification":
            frequent = np.bincount(train_targets, minlength=task.num_outputs).argmax()
            return np.tile(np.eye(task.num_outputs)[frequent], (num_rows, 1))
        case "multilabel":
            return np.tile((train_targets.mean(axis=0) > THRESHOLD).astype(np.float64), (num_rows, 1))
        case "regression":
            return np.full(num_rows, train_targets.mean(dtype=np.float64))


def _features(
    task: Task, train_texts: Sequence[tuple[str, ...]], dev_texts: Sequence[tuple[str, ...]]
) -> tuple[Any, Any]:
    """Sparse rows of train and dev; an n-gram that train lacks has no column."""
    from scipy.sparse import vstack
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer

    hashing = HashingVectorizer(
        ngram_range=(1, 2),
        n_features=HASH_BUCKETS,
        alternate_sign=False,
        norm=None,
        token_pattern=WORD,
    )
    train, dev = (
        [hashing.transform([row[side][:MAX_CHARACTERS] for row in texts]) for side in range(task.texts)]
        for texts in (train_texts, dev_texts)
    )
    all_train = vstack(train).tocsr()
    columns = _frequent_columns(all_train, MAX_COEFFICIENTS // (task.num_outputs * task.texts))
    if len(columns) == 0:
        return train[0][:, columns], dev[0][:, columns]
    weigh = TfidfTransformer(sublinear_tf=True).fit(all_train[:, columns])
    train, dev = ([weigh.transform(side[:, columns]) for side in sides] for sides in (train, dev))
    return _joined(train), _joined(dev)


def _frequent_columns(rows: Any, limit: int) -> Array:
    """The numbers of at most `limit` columns that occur in most rows, in order."""
    frequency = np.bincount(rows.indices, minlength=rows.shape[1])
    columns = np.flatnonzero(frequency)
    if len(columns) > limit:
        columns = columns[np.argsort(-frequency[columns], kind="stable")[:limit]]
    return np.sort(columns)


def _joined(sides: list[Any]) -> Any:
    """One text as it is; of a pair (a, b) the features |a-b| and a*b, and their sum, the cosine."""
    from scipy.sparse import csr_matrix, hstack

    if len(sides) == 1:
        return sides[0]
    a, b = sides
    product = a.multiply(b)
    cosine = csr_matrix(product.sum(axis=1))
    return hstack([abs(a - b), product, cosine]).tocsr()


def _linear_answers(task: Task, train_rows: Any, train_targets: Array, dev_rows: Any) -> Array:
    """What a linear model fitted to `train_rows` answers for `dev_rows`."""
    from sklearn.linear_model import Ridge

    match task.kind:
        case "classification":
            return _class_probabilities(task, train_rows, train_targets, dev_rows)
        case "multilabel":
            each = [_class_probabilities(task, train_rows, label, dev_rows) for label in train_targets.T]
            return np.stack([probabilities[:, 1] for probabilities in each], axis=1)
        case "regression":
            model = Ridge(alpha=1.0).fit(train_rows, train_targets.astype(np.float64))
            values = np.asarray(model.predict(dev_rows))
            return values if task.range is None else values.clip(*task.range)


def _class_probabilities(task: Task, train_rows: Any, targets: Array, dev_rows: Any) -> Array:
    """Probabilities [N, C], from logistic regression; zero for a class that train lacks."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    classes = np.unique(targets)
    num_classes = task.num_outputs if task.kind == "classification" else 2
    probabilities = np.zeros((dev_rows.shape[0], num_classes))
    if len(classes) == 1:
        probabilities[:, classes] = 1.0
        return probabilities
    model = LogisticRegression(C=INVERSE_PENALTY[task.texts], max_iter=300)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a baseline after 300 steps is a baseline still
        model.fit(train_rows, targets)
    probabilities[:, classes] = model.predict_proba(dev_rows)
    return probabilities
