"""The command line: ``slotflow demo | simulate | train | infer | merge | evaluate | reproduce | study | info | …``.

The methods of the baselines are commands too.

Results go to standard output (as one JSON document with ``--json``), progress and errors to standard
error. Exit codes: 0 done, 1 failed, 2 bad input, 130 stopped by Ctrl-C. A ValueError or an OSError
counts as bad input and becomes one line, and so does a lack of memory; the environment variable
SLOTFLOW_DEBUG=1 shows the traceback.

A command's module is imported when it is run or its options are asked for: the list of commands, and their completion,
need not wait for torch.
"""

from __future__ import annotations

import codecs
import errno
import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from slotflow.cli.terminal import complain
from slotflow.core.version import __version__

__all__ = ["COMMANDS", "app", "load_command", "main"]

PLAIN = {
    "×": "x",
    "–": "-",
    "−": "-",
    "±": "+-",
    "≲": "<~",
    "◂": "<",
    "σ": "sigma",
    "Δ": "D",
    "φ": "phi",
    "α": "alpha",
    "µ": "u",
    "μ": "u",
    "✓": "+",
    "✗": "x",
    "█": "#",
    **dict.fromkeys("▏▎▍▌▋▊▉", "|"),
}
"""What a terminal shows instead of characters that it does not have; ? for others."""


COMMANDS = {
    "demo": "Simulates one mixture, infers its components, shows verdict and evidence, and draws a picture.",
    "simulate": "Draws signals from a prior and writes them with their truth to an NPZ file.",
    "train": "Trains a model on signals that are simulated on the fly.",
    "infer": "Infers the components of the signals in files.",
    "merge": "Joins the results of shards into one catalogue.",
    "classical": "Infers the components of one signal by matching pursuit and Laplace's approximation.",
    "rjmcmc": "Infers the components of one signal by parallel-tempered reversible-jump MCMC (Eryn).",
    "smc": "Infers the components of one signal by tempered sequential Monte Carlo.",
    "evaluate": "Evaluates a model on fresh signals, with each measure beside its target.",
    "reproduce": "Reproduces the paper's results: pictures, and tables with our values beside the paper's.",
    "study": "Measures a claim of the paper's theory or ablations, with our value beside the paper's.",
    "info": "Shows what is installed, or what a preset, a model file or a training folder holds.",
    "doctor": "Checks the installation: versions, devices, weights and their hash, optional packages.",
}
"""What each command does, in a line; its module says more (HELP)."""
BY_METHOD = ("classical", "rjmcmc", "smc")
"""Commands that are another name for `infer --method`."""


def load_command(name: str) -> Any:
    """A command with its options and its help, which imports its module."""
    module = import_module("slotflow.cli." + ("infer" if name in BY_METHOD else name))
    text, run = module.alias(name) if name in BY_METHOD else (module.HELP, module.run)
    alone = typer.Typer(add_completion=False, rich_markup_mode="rich")
    alone.command(name, help=text)(run)
    return typer.main.get_command(alone)


class Commands(TyperGroup):
    """The commands, with one way to fail."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The name, the command and its arguments; its module is imported here, and not before."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; bad input ends in one line and exit code 2, Ctrl-C in exit code 130."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise
        except (ValueError, OSError) as error:
            if os.environ.get("SLOTFLOW_DEBUG") == "1":
                raise
            complain("error", _in_words(error))
            raise typer.Exit(2) from error
        except (MemoryError, RuntimeError) as error:
            if os.environ.get("SLOTFLOW_DEBUG") == "1" or not _lacks_memory(error):
                raise
            complain(
                "failed",
                "there is not enough memory for this; ask for fewer draws or signals, or use less data",
            )
            raise typer.Exit(1) from error
        except KeyboardInterrupt as error:
            complain("stopped", str(error) or "interrupted; no file is left half-written")
            raise typer.Exit(130) from error


def _in_words(error: ValueError | OSError) -> str:
    """What went wrong, and what to do where the system says only that there is no room."""
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return str(error)
    where = "" if error.filename is None else f" at {error.filename}"
    return (
        f"the disk is full{where}: the file being written was not kept, finished files are intact; free some space or "
        "write somewhere else (--out), and run the same command again."
    )


def _lacks_memory(error: MemoryError | RuntimeError) -> bool:
    """Whether memory ran out, of which torch tells by a message."""
    words = ("can't allocate memory", "out of memory")
    return isinstance(error, MemoryError) or any(text in str(error) for text in words)


app = typer.Typer(
    cls=Commands,
    name="slotflow",
    help="How many sinusoids are in a time series, and the posterior of each one.\n\n"
    "Every command has --help with examples. slotflow --install-completion lets the Tab key complete commands and "
    "options (bash, zsh, fish, PowerShell).",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _stand_in() -> None:
    """What a command is until its module is imported."""


for _name, _text in COMMANDS.items():
    app.command(_name, help=_text)(_stand_in)


def main() -> None:
    """Runs the command line; the entry point of the console script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="slotflow")  # a terminal that cannot show █ is no failure
    app()


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Words for what cannot be encoded, as `codecs.register_error` takes it."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(PLAIN.get(letter, "?") for letter in missing), error.end


codecs.register_error("slotflow", _plain)


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
