"""The command line: ``slotflow demo | simulate | train | infer | evaluate | reproduce | info | doctor``, and baselines.

Results go to standard output (as one JSON document with ``--json``), progress and errors to standard
error. Exit codes: 0 done, 1 failed, 2 bad input, 130 stopped by Ctrl-C. A ValueError or an OSError
counts as bad input and becomes one line; the environment variable SLOTFLOW_DEBUG=1 shows its
traceback.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from slotflow import __version__
from slotflow.cli import (
    classical,
    demo,
    doctor,
    evaluate,
    infer,
    info,
    reproduce,
    rjmcmc,
    simulate,
    smc,
    train,
)
from slotflow.cli.output import complain

__all__ = ["app", "main"]


class Commands(TyperGroup):
    """The commands, with one way to fail."""

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; bad input ends in one line and exit code 2, Ctrl-C in exit code 130."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, OSError) as error:
            if os.environ.get("SLOTFLOW_DEBUG") == "1":
                raise
            complain("error", error)
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            complain("stopped", str(error) or "interrupted; no file is left half-written")
            raise typer.Exit(130) from error


app = typer.Typer(
    cls=Commands,
    name="slotflow",
    help="How many sinusoids are in a time series, and the posterior of each one.\n\n"
    "Every command has --help with examples. To complete commands and options with the Tab key: "
    "slotflow --install-completion (bash, zsh, fish, PowerShell).",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", help=demo.HELP)(demo.run)
app.command("simulate", help=simulate.HELP)(simulate.run)
app.command("train", help=train.HELP)(train.run)
app.command("infer", help=infer.HELP)(infer.run)
app.command("classical", help=classical.HELP)(classical.run)
app.command("rjmcmc", help=rjmcmc.HELP)(rjmcmc.run)
app.command("smc", help=smc.HELP)(smc.run)
app.command("evaluate", help=evaluate.HELP)(evaluate.run)
app.command("reproduce", help=reproduce.HELP)(reproduce.run)
app.command("info", help=info.HELP)(info.run)
app.command("doctor", help=doctor.HELP)(doctor.run)


def main() -> None:
    """Runs the command line; the entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show █ is no failure
    app()


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"slotflow {__version__}")
        raise typer.Exit()


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    pass
