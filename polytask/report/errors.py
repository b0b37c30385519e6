"""The rows that a task got most wrong, as a table to search; all texts are escaped here."""

from collections.abc import Mapping, Sequence
from html import escape

from polytask.report.answers import Answered
from polytask.report.diagnosis import Mistake
from polytask.report.style import PRINTED_ERRORS
from polytask.report.words import decimal

MAX_CHARACTERS = 500  # of one text
MAX_ID = 60


def errors_table(found: Answered, mistakes: Sequence[Mistake], texts: Mapping[int, tuple[str, ...]]) -> str:
    """A row a mistake: its texts where they are known, what is true, what was answered, how sure."""
    heads = ["Text", "True", "Answered", _measure(found), "Id"]
    head = "".join(
        f'<th scope="col" class="{"n" if place == 3 else ""}">{name}</th>' for place, name in enumerate(heads)
    ).replace(' class=""', "")
    lines = "".join(_line(found, mistake, texts.get(mistake.row), heads) for mistake in mistakes)
    return (
        f'<div class="scroll tall"><table class="errors"><thead><tr>{head}</tr></thead>'
        f"<tbody>{lines}</tbody></table></div>"
    )


def _measure(found: Answered) -> str:
    return {"classification": "Sure", "multilabel": "Off", "regression": "Off"}[found.kind]


def _line(found: Answered, mistake: Mistake, texts: tuple[str, ...] | None, heads: Sequence[str]) -> str:
    row = mistake.row
    if found.kind == "classification":
        sure = f"{found.probabilities[row, found.answers[row]]:.0%}"
        marks = f' data-true="{found.targets[row]}" data-given="{found.answers[row]}"'
    else:
        sure, marks = decimal(mistake.badness, 2), ""
    shown = (
        "".join(f"<p>{escape(_cut(text, MAX_CHARACTERS))}</p>" for text in texts)
        if texts
        else '<p class="gone">–</p>'
    )
    true, given = (found.word(values, row) or "none" for values in (found.targets, found.answers))
    cells = [("text", shown), ("", escape(true)), ("wrong", escape(given)), ("n", sure)]
    name = escape(_cut(found.ids[row], MAX_ID))
    cells.append(("id", f'<span title="{name}">{name}</span>'))
    body = "".join(
        f'<td class="{kind}" data-head="{head}">{cell}</td>'
        for (kind, cell), head in zip(cells, heads, strict=True)
    )
    return f"<tr{marks}>{body}</tr>".replace(' class=""', "")


def controls(found: Answered, mistakes: Sequence[Mistake]) -> str:
    """What the table is searched with; a script shows it, for without one it does nothing."""
    search = '<input type="search" placeholder="Search" aria-label="Search the errors">'
    choices = ""
    if found.kind == "classification":
        for name, says, values in (
            ("true", "True: any", found.targets),
            ("given", "Answered: any", found.answers),
        ):
            places = sorted({int(values[mistake.row]) for mistake in mistakes})
            options = "".join(
                f'<option value="{place}">{escape(_cut(found.labels[place], 40))}</option>'
                for place in places
            )
            label = says.split(":")[0]
            choices += (
                f'<select data-filter="{name}" aria-label="{label}"><option value="">{says}</option>'
                f"{options}</select>"
            )
    return f'<div class="controls" hidden>{search}{choices}<output></output></div>'


def printed(num_mistakes: int) -> str:
    """What is said on paper where not all of them are."""
    if num_mistakes <= PRINTED_ERRORS:
        return ""
    return f'<p class="says printed">The first {PRINTED_ERRORS} of {num_mistakes} are printed.</p>'


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
