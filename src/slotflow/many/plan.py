"""What is to be done, chunk by chunk, and what became of each signal.

The signals of all files stand in one row, and each has a **place** in it, counted from 0. A **chunk** is a stretch of
that row: signals that are read and go through the network together. Chunks begin at multiples of their size, whoever
analyses them, so that a signal has the same company in one process, in a shard and on a cluster, and its answer is the
same to the last digit. A **shard** is a run of whole chunks.

Nothing here waits for torch: a process that only hands out work does not need it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotflow.core.store import Record, signal_name
from slotflow.data.observation import Observation
from slotflow.data.read.signals import SIGNALS_AT_ONCE

if TYPE_CHECKING:
    from slotflow.many.found import Found

__all__ = ["CHUNK", "Answer", "Chunk", "Piece", "Plan", "Shard"]

CHUNK = SIGNALS_AT_ONCE
"""Signals that are read and go through the network together, unless the user says otherwise."""


@dataclass(frozen=True)
class Answer:
    """What became of one signal."""

    file: Path
    signal: int
    """Its number in the file; −1 for a file that could not be read."""
    count: int = 1
    """How many signals it stands for."""
    in_file: int = 1
    """How many signals its file holds."""
    place: int = 0
    """Its place among all signals."""
    key: str = ""
    """Identity of input and settings."""
    found: Found | None = None
    """What was found, until its record is made."""
    record: Record | None = None
    """The result as plain values."""
    error: str = ""
    """Why it failed."""
    same: bool = False
    """Whether an earlier run has the result."""
    final: bool = False
    """Whether the failure is not tried again: the signal ended its process, or hung."""

    @property
    def name(self) -> str:
        """What its record is about."""
        if self.signal < 0:
            return f"{self.file}@{self.place}"
        return signal_name(str(self.file), self.signal)

    @property
    def failure(self) -> dict[str, Any]:
        """Its line in the list of failures."""
        number = self.signal if self.signal >= 0 else None
        entry = {"file": str(self.file), "signal": number, "signals": self.count}
        return entry | {"error": self.error}


@dataclass(frozen=True)
class Piece:
    """Signals of one file that stand side by side."""

    file: Path
    first: int
    """Number of the first one in the file."""
    count: int
    place: int
    """Place of the first one among all signals."""
    in_file: int
    """How many signals of the file are analysed."""


@dataclass(frozen=True)
class Chunk:
    """Signals that go through the network together."""

    number: int
    pieces: tuple[Piece, ...]
    observations: tuple[Observation | ValueError, ...] | None = None
    """The signals themselves, or why one cannot be used, where they are not read from files."""

    @property
    def places(self) -> range:
        """The places of its signals."""
        last = self.pieces[-1]
        return range(self.pieces[0].place, last.place + last.count)

    def answer(self, place: int) -> Answer:
        """An empty answer for the signal at a place."""
        for piece in self.pieces:
            if 0 <= (i := place - piece.place) < piece.count:
                return Answer(piece.file, piece.first + i, in_file=piece.in_file, place=place)
        raise IndexError(f"expected a place in {self.places}, received {place}.")

    def alone(self, place: int) -> Chunk:
        """The signal at a place as a chunk of its own."""
        one, at = self.answer(place), place - self.places.start
        piece = Piece(one.file, one.signal, 1, place, one.in_file)
        own = None if self.observations is None else (self.observations[at],)
        return Chunk(self.number, (piece,), own)


@dataclass(frozen=True)
class Shard:
    """One of several equal parts of the work."""

    number: int
    """Counted from 1."""
    of: int

    @classmethod
    def parsed(cls, text: str) -> Shard:
        """Reads ``3/200``: the third of 200."""
        found = re.fullmatch(r"\s*(\d+)\s*/\s*(\d+)\s*", text)
        shard = cls(0, 0) if found is None else cls(int(found[1]), int(found[2]))
        if not 1 <= shard.number <= shard.of:
            raise ValueError(
                f"--shard: expected NUMBER/OF such as 3/200, the numbers counted from 1, received {text!r}."
            )
        return shard

    @property
    def folder(self) -> str:
        """The name of its folder of results."""
        width = len(str(self.of))
        return f"shard-{self.number:0{width}d}-of-{self.of}"

    def part(self, chunks: int) -> range:
        """The numbers of its chunks, given how many there are."""
        return range((self.number - 1) * chunks // self.of, self.number * chunks // self.of)


@dataclass(frozen=True)
class Plan:
    """All signals, and those that are analysed here.

    Args:
        files: Where they are; a single name for signals in memory.
        counts: How many signals of each file are analysed.
        signal: The one signal of each file that is analysed; None for all of them.
        size: Signals in a chunk.
        shard: The part that is analysed; None for all.
        observations: The signals themselves, where they are not read from files.
    """

    files: Sequence[Path]
    counts: Sequence[int]
    signal: int | None = None
    size: int = CHUNK
    shard: Shard | None = None
    observations: Sequence[Observation] | None = None

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"expected at least one signal in a chunk, received {self.size}.")

    @cached_property
    def ends(self) -> list[int]:
        """The place after the last signal of each file."""
        return list(accumulate(self.counts))

    @property
    def total(self) -> int:
        """How many signals there are, in all shards."""
        return self.ends[-1] if self.counts else 0

    @property
    def in_all(self) -> int:
        """How many chunks there are, in all shards."""
        return -(-self.total // self.size)

    @property
    def numbers(self) -> range:
        """The numbers of the chunks that are analysed."""
        return range(self.in_all) if self.shard is None else self.shard.part(self.in_all)

    @property
    def idle(self) -> str:
        """Why the shard has nothing to do, and what to do about it; empty if it has something."""
        if self.shard is None or self.numbers:
            return ""
        number, of, even = self.shard.number, self.shard.of, max(1, self.total // self.shard.of)
        why = (
            f"shard {number} of {of} is empty: {self.total:,} signal(s) are {self.in_all:,} chunk(s) of {self.size:,}, "
            "which are not divided"
        )
        if even == self.size:  # one signal in a chunk, and fewer signals than shards
            return f"{why}; {self.total:,} shards are enough."
        return f"{why}; for shards of about equal size give all of them a chunk of {even:,} (--chunk {even})."

    @property
    def places(self) -> range:
        """The places of the signals that are analysed."""
        numbers = self.numbers
        return range(
            min(numbers.start * self.size, self.total), min(numbers.stop * self.size, self.total)
        )

    def chunks(self) -> Iterator[Chunk]:
        """The chunks that are analysed, in their order."""
        for number in self.numbers:
            yield self.chunk(number)

    def chunk(self, number: int) -> Chunk:
        """The chunk of a number."""
        place, stop = number * self.size, min((number + 1) * self.size, self.total)
        own = None if self.observations is None else tuple(self.observations[place:stop])
        pieces = []
        while place < stop:
            i = bisect_right(self.ends, place)
            first = place - (self.ends[i] - self.counts[i])
            count = min(stop, self.ends[i]) - place
            first = first if self.signal is None else self.signal
            pieces.append(Piece(self.files[i], first, count, place, self.counts[i]))
            place += count
        return Chunk(number, tuple(pieces), own)
