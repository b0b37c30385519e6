"""The command line: one thin command per verb, each a call that Python users have too."""

import io
import os
import sys

import typer

from polytask.commands import changing, comparing, exporting, predicting, sets, sharing, training, using
from polytask.commands.output import fail
from polytask.commands.serving import serve
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
for verb in (
    training.train,
    using.evaluate,
    predicting.predict,
    comparing.compare,
    training.report,
    training.info,
    exporting.export,
):
    app.command()(verb)
for change in (changing.add_task, changing.remove_task, changing.adopt):
    app.command()(change)
data_app = typer.Typer(help="Named public data sets.", no_args_is_help=True)
data_app.command("list")(sets.data_list)
data_app.command("show")(sets.data_show)
data_app.command("fetch")(sets.data_fetch)
app.add_typer(data_app, name="data")
app.command()(sharing.push)
app.command()(sharing.pull)
app.command()(sharing.submit)
app.command()(training.demo)
app.command()(serve)


def main() -> None:
    """Run the command line; exit codes: 0 done, 1 failed, 2 the user's input is wrong."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # JSON is UTF-8; a lone surrogate becomes its JSON escape
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        app(prog_name="polytask")
    except UserError as error:
        fail(str(error), 2)
    except SystemExit as leaving:
        if leaving.code == CTRL_C:
            fail("Stopped.", 1)
        raise
    except KeyboardInterrupt:
        fail("Stopped.", 1)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing more to say
        sys.exit(1)
    except Exception as error:
        if os.environ.get("POLYTASK_TRACEBACK"):
            raise
        if isinstance(error, OSError | RuntimeError):  # a full disk, a loss that is no number
            fail(f"{error}", 1)
        fail(f"a mistake in polytask, {type(error).__name__}: {error} (POLYTASK_TRACEBACK=1 shows where).", 1)
