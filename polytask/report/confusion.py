"""Which labels are taken for which: a matrix where labels are few, the commonest confusions where many."""

from html import escape

import numpy as np

from polytask.report.answers import Answered
from polytask.report.diagnosis import confusion, label_scores
from polytask.report.tables import table
from polytask.report.words import decimal, whole

MAX_MATRIX = 20  # labels
MAX_PAIRS = 15
MAX_LABELS = 60
WIDE = 7  # labels from which column heads stand upright
SHADES = 10


def matrix(found: Answered) -> str:
    """A table of all pairs; a cell's shade is its share of the rows with that true label."""
    counts = confusion(found)
    totals = counts.sum(axis=1)
    heads = "".join(f'<th scope="col"><span>{escape(_short(label))}</span></th>' for label in found.labels)
    lines = []
    for true, label in enumerate(found.labels):
        cells = [
            _cell(int(counts[true, given]), int(totals[true]), (label, found.labels[given]), (true, given))
            for given in range(len(found.labels))
        ]
        head = f'<th scope="row" title="{escape(label)}">{escape(_short(label))}</th>'
        lines.append(f'<tr>{head}{"".join(cells)}<td class="sum">{whole(int(totals[true]))}</td></tr>')
    upright = " upright" if len(found.labels) >= WIDE or max(map(len, found.labels)) > 12 else ""
    return (
        f'<div class="scroll"><table class="matrix{upright}"><thead><tr><th></th>{heads}<th>rows</th></tr>'
        f"</thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _cell(count: int, total: int, labels: tuple[str, str], places: tuple[int, int]) -> str:
    true, given = places
    if not count:
        return '<td class="none">0</td>'
    share = count / total
    shade = f"{'right' if true == given else 'wrong'} s{max(1, round(share * SHADES))}"
    says = escape(f"{labels[0]}, answered {labels[1]}: {count:,} of {total:,} rows, {share:.1%}")
    if true == given:
        return f'<td class="{shade}" title="{says}">{whole(count)}</td>'
    pick = f'<button type="button" data-true="{true}" data-given="{given}">{whole(count)}</button>'
    return f'<td class="{shade}" title="{says}">{pick}</td>'


def pairs(found: Answered) -> str:
    """The commonest confusions as a list."""
    counts = confusion(found)
    totals = counts.sum(axis=1)
    np.fill_diagonal(counts, 0)
    order = np.argsort(-counts, axis=None, kind="stable")[:MAX_PAIRS]
    rows = []
    for true, given in zip(*np.unravel_index(order, counts.shape), strict=True):
        if count := int(counts[true, given]):
            share = f"{count / totals[true]:.0%}"
            rows.append([found.labels[true], found.labels[given], whole(count), share])
    return table(["True", "Answered", "Rows", "Of true"], rows, num_texts=2)


def most_confused(found: Answered) -> tuple[str, str, int] | None:
    """The true label, the one answered and the rows of the commonest confusion."""
    counts = confusion(found)
    np.fill_diagonal(counts, 0)
    true, given = divmod(int(counts.argmax()), len(found.labels))
    rows = int(counts[true, given])
    return (found.labels[true], found.labels[given], rows) if rows else None


def by_label(found: Answered) -> str:
    """Precision, recall and F1 of each label, the commonest first where they are many."""
    scores = label_scores(found)
    if len(scores) > MAX_MATRIX:
        scores.sort(key=lambda score: -score.true)
    rows = [
        [each.label, decimal(each.precision), decimal(each.recall), decimal(each.f1), whole(each.true)]
        for each in scores[:MAX_LABELS]
    ]
    left = len(scores) - len(rows)
    more = f'<p class="says">{left:,} rarer labels are left out.</p>' if left else ""
    return table(["Label", "Precision", "Recall", "F1", "Rows"], rows) + more


def _short(label: str) -> str:
    return label if len(label) <= 24 else f"{label[:22]}…"
