"""CS224N's submission: the prediction files of the default project, as its own code writes them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from polytask.data.catalogue import CS224N_SETS
from polytask.deploy.answered import Answer, AnsweredRun
from polytask.errors import DataError

FOLDER = "predictions/bert/multitask"


@dataclass(frozen=True)
class CourseFile:
    """One task's files: how their names begin and what their second column is called."""

    set: str
    name: str
    header: str


FILES = (
    CourseFile("cs224n/sst", "sst", "Predicted_Sentiment"),
    CourseFile("cs224n/quora", "para", "Predicted_Is_Paraphrase"),
    CourseFile("cs224n/sts", "sts", "Predicted_Similiary"),  # so spelt by the project's own code
)
NAMES = {
    "sst": "cs224n/sst",
    "para": "cs224n/quora",
    "paraphrase": "cs224n/quora",
    "quora": "cs224n/quora",
    "sts": "cs224n/sts",
}


def course_set(path: Path, task: str) -> str | None:
    """The set that a task was trained on: by its training file's name, or by its own name."""
    by_file = {known.files["train"]: name for name, known in CS224N_SETS.items()}
    return by_file.get(path.name) or NAMES.get(task.lower())


def course_files(
    run: AnsweredRun, task_of: dict[str, str], notes: list[str]
) -> Iterator[tuple[str, str, int]]:
    """The name, content and rows of each file that a run can give; what it cannot give is noted."""
    for file in FILES:
        task = task_of.get(file.set)
        for split in ("dev", "test"):
            name = f"{file.name}-{split}-output.csv"
            path = getattr(run.tasks[task], split) if task is not None else None
            if task is None or path is None:
                reason = "no task for it" if task is None else f"no {split} rows"
                notes.append(f"{name} is left out: the run has {reason}.")
                continue
            answers = run.answers(task, split, Path(path))
            yield f"{FOLDER}/{name}", _content(file, answers), len(answers)


def _content(file: CourseFile, answers: Sequence[Answer]) -> str:
    lines = [f"id \t {file.header} \n"]
    lines += [f"{answer.id} , {_word(file, answer)} \n" for answer in answers]
    return "".join(lines)


def _word(file: CourseFile, answer: Answer) -> str:
    match file.name:
        case "sts":
            return f"{answer.value:.6g}"
        case "sst" if answer.word in ("0", "1", "2", "3", "4"):
            return answer.word
        case "para" if answer.word in ("0", "1"):
            return f"{answer.word}.0"  # the project's code writes a rounded sigmoid
    allowed = "0 to 4" if file.name == "sst" else "0 or 1"
    raise DataError(f"{file.name}: a label in the task's files should be {allowed}. Found {answer.word!r}.")
