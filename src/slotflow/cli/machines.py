"""The options of `slotflow infer` that divide many signals among processes and machines."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from slotflow.cli.options import MANY
from slotflow.many.plan import CHUNK

__all__ = ["Machines"]


@dataclass(frozen=True)
class Machines:
    """How many signals are divided among processes and machines."""

    shard: Annotated[
        str | None,
        typer.Option(
            metavar="NUMBER/OF",
            help="Analyse one of several equal parts, as in 3/200. Its results go to a folder of its own in --out; "
            "slotflow merge joins them.",
            rich_help_panel=MANY,
        ),
    ] = None
    timeout: Annotated[
        float | None,
        typer.Option(
            help="Seconds that one signal may take; if it takes longer, it is stopped and listed as failed.",
            rich_help_panel=MANY,
        ),
    ] = None
    dask: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS|local[:N]",
            help="Analyse many signals on a Dask cluster: the address of its scheduler, or processes of this machine "
            "(needs the extra 'cluster'). All machines must see the files under the same path; see --scatter.",
            rich_help_panel=MANY,
        ),
    ] = None
    scatter: Annotated[
        bool,
        typer.Option(
            "--scatter",
            help="Send the signals to the workers of --dask, which then need not see the files.",
            rich_help_panel=MANY,
        ),
    ] = False
    chunk: Annotated[
        int,
        typer.Option(
            min=1,
            help="How many signals go through the network together, and to one machine.",
            rich_help_panel=MANY,
        ),
    ] = CHUNK

    @property
    def supervised(self) -> bool:
        """Whether the work is done in a process of its own, whose end the command survives."""
        return any(one is not None for one in (self.shard, self.timeout, self.dask))

    def check(self, out: Path | None, max_seconds: float | None) -> None:
        """Refuses what makes no sense together.

        Args:
            out: The folder of the results.
            max_seconds: The time budget of the command.
        """
        if self.shard is not None and out is None:
            raise ValueError("--shard needs a folder for the results of all shards; give --out.")
        if self.scatter and self.dask is None:
            raise ValueError(
                "--scatter sends signals to the workers of --dask; give --dask as well, or drop --scatter."
            )
        if self.dask is not None and out is None:
            raise ValueError("--dask needs a folder for the results; give --out.")
        if self.dask is not None and self.shard is not None:
            raise ValueError("--dask and --shard both divide the signals; drop one.")
        if self.dask is not None and max_seconds is not None:
            raise ValueError(
                "--max-seconds is the time of one process, but --dask divides the work among several; give --timeout, "
                "the time of one signal, instead."
            )
