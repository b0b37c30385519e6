"""GLUE's submission: a zip with one tab-separated file a task, in the words of GLUE's own labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from polytask.data.catalogue_glue import GLUE_SETS
from polytask.data.hub_sets import hub_folder
from polytask.data.kept import read_kept
from polytask.data.local_sets import keep_local_set, local_folder
from polytask.data.places import Places
from polytask.deploy.answered import Answer, AnsweredRun
from polytask.errors import DataError

HEADER = "index\tprediction"


@dataclass(frozen=True)
class GlueFile:
    """A file of the submission: whose task it is, which rows it answers and how many GLUE has."""

    set: str
    name: str
    split: str
    rows: int
    asks: str = ""  # the task that answers, where it is another's


FILES = (
    GlueFile("glue/cola", "CoLA", "test", 1_063),
    GlueFile("glue/sst2", "SST-2", "test", 1_821),
    GlueFile("glue/mrpc", "MRPC", "test", 1_725),
    GlueFile("glue/stsb", "STS-B", "test", 1_379),
    GlueFile("glue/mnli", "MNLI-m", "test", 9_796),
    GlueFile("glue/mnli", "MNLI-mm", "test_mismatched", 9_847),
    GlueFile("glue/qnli", "QNLI", "test", 5_463),
    GlueFile("glue/qqp", "QQP", "test", 390_965),
    GlueFile("glue/rte", "RTE", "test", 3_000),
    GlueFile("glue/wnli", "WNLI", "test", 146),
    GlueFile("glue/ax", "AX", "test", 1_104, asks="glue/mnli"),
)
NAMES = {
    "cola": "glue/cola",
    "sst": "glue/sst2",
    "sst2": "glue/sst2",
    "mrpc": "glue/mrpc",
    "sts": "glue/stsb",
    "stsb": "glue/stsb",
    "mnli": "glue/mnli",
    "qnli": "glue/qnli",
    "qqp": "glue/qqp",
    "rte": "glue/rte",
    "wnli": "glue/wnli",
}
NUMBERED = ("glue/cola", "glue/sst2", "glue/mrpc", "glue/qqp", "glue/wnli")  # GLUE wants 0 and 1 of these


def glue_set(path: Path, task: str) -> str | None:
    """The set of GLUE that a task was trained on: by its file, or by its own name."""
    kept = read_kept(path.parent)
    if kept is not None and kept.name in GLUE_SETS:
        return kept.name
    return NAMES.get(task.lower().replace("-", "").replace("_", ""))


def glue_files(run: AnsweredRun, task_of: dict[str, str], notes: list[str]) -> Iterator[tuple[str, str, int]]:
    """The name, content and rows of each file that a run can give; what it cannot give is noted."""
    for file in FILES:
        task = task_of.get(file.asks or file.set)
        if task is None:
            notes.append(f"{file.name}.tsv is left out: the run has no task for it.")
            continue
        path = _inputs(run, task, file)
        if path is None:
            notes.append(
                f"{file.name}.tsv is left out: the rows to answer are not here ({file.set}:{file.split})."
            )
            continue
        answers = run.answers(task, file.split, path)
        if len(answers) != file.rows:
            notes.append(f"{file.name}.tsv has {len(answers):,} rows, where GLUE's own has {file.rows:,}.")
        yield f"{file.name}.tsv", _content(file, answers), len(answers)


def _inputs(run: AnsweredRun, task: str, file: GlueFile) -> Path | None:
    """The file with the rows to answer: beside the run's own, or wherever the set is here."""
    written = run.tasks[task]
    if file.set == "glue/ax":
        known = GLUE_SETS[file.set]
        own = local_folder(known, Places.of(run.folder, run.recipe.data).data)
        folder = keep_local_set(file.set, known, own)[0] if own is not None else hub_folder(file.set)
    else:
        kept = read_kept(Path(written.train).parent)
        if kept is None or kept.name != file.set:
            return Path(written.test) if file.split == "test" and written.test is not None else None
        folder = Path(written.train).parent
    path = folder / f"{file.split}.parquet"
    return path if path.is_file() else None


def _content(file: GlueFile, answers: Sequence[Answer]) -> str:
    lines = [HEADER]
    for number, answer in enumerate(answers):
        if answer.id != str(number):
            raise DataError(f"{file.name}: row {number} should have the index {number}. Found {answer.id!r}.")
        lines.append(f"{number}\t{_word(file, answer)}")
    return "\n".join(lines) + "\n"


def _word(file: GlueFile, answer: Answer) -> str:
    known = GLUE_SETS["glue/mnli" if file.set == "glue/ax" else file.set]
    if known.labels is None:
        return f"{min(max(answer.value, 0.0), 5.0):.3f}"
    names = list(known.labels)
    if file.set in NUMBERED:
        if answer.word in ("0", "1"):
            return answer.word
        if answer.word in names:
            return str(names.index(answer.word))
    elif answer.word in names:
        return answer.word
    raise DataError(f"{file.name}: a label should be one of {', '.join(names)}. Found {answer.word!r}.")
