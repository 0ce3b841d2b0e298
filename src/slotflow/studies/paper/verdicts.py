"""Whether what the paper says of a table or figure held: from records of results and of studies, never from words.

A **result** (`slotflow reproduce`) has a row for what the paper says, and a `Claim` says where its value lies if the
paper is right. A **study** (`slotflow study`) has judged its rows already; `StudyClaims` says which of them are about a
table or figure. It held where all of these rows hold, and held in part where some do. Rows that are open count for
neither. A network that is better than the paper's does not hold a claim such as "two to three times broader".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slotflow.network.model import DEFAULT
from slotflow.studies.paper.files import Record
from slotflow.studies.paper.result import METHOD_SUFFIXES
from slotflow.studies.row import Target, met_of

__all__ = [
    "NOTHING",
    "NOT_YET",
    "PAPER",
    "TAKES_PART_UNTRAINED",
    "Claim",
    "Item",
    "StudyClaims",
    "StudyRecord",
    "item_line",
]

PAPER = "paper"
"""The network of the paper's text, as the results call it."""
NETWORKS = (DEFAULT, PAPER)
"""The networks that have a verdict each."""
NOT_YET = "**not yet**"
"""What stands where a measurement is missing."""
NOTHING = "–"
"""What stands where there is nothing to judge."""
UNTRAINED = "`paper` takes part untrained"
TAKES_PART_UNTRAINED = ("cost", "properties")
"""Results in which the paper's network is also measured with random weights, beside the default network."""

StudyRecord = Mapping[str, Any]
"""The content of a study's file."""
Rows = Mapping[str, Mapping[str, Any]]
"""Rows by their measure."""


@dataclass(frozen=True)
class Claim:
    """A row of a result, and where it lies if the paper is right."""

    measure: str
    """What was measured; {network} stands for the network's name."""
    target: Target
    by_slot: bool = False
    """Whether the paper compares slot by slot. The row of that protocol is judged where there is one."""

    def row(self, rows: Rows, network: str) -> Mapping[str, Any] | None:
        """The row that it is about; None if there is none."""
        measure = self.measure.format(network=network)
        own = rows.get(measure + METHOD_SUFFIXES["slots"]) if self.by_slot else None
        return own or rows.get(measure)


@dataclass(frozen=True)
class StudyClaims:
    """The rows of a study that are about a table or figure."""

    study: str
    """Its name."""
    anchor: str
    """Its heading in docs/studies.md, as it stands in a link."""
    patterns: Mapping[str, str]
    """Of each network, a regular expression that finds its rows at the beginning of their measure; that of "" is for
    both. Rows under other names are counted among those that held, and belong to neither network."""

    @property
    def link(self) -> str:
        """To the page of studies."""
        return f"[study `{self.study}`](studies.md#{self.anchor})"

    def verdicts(self, record: StudyRecord, network: str) -> list[bool | None]:
        """Whether each of its rows held, None where that is open."""
        pattern = self.patterns.get(network, self.patterns.get(""))
        if pattern is None:
            return []
        asked = (row for row in record["rows"] if row["target"])
        return [met_of(row) for row in asked if re.match(pattern, row["measure"])]


@dataclass(frozen=True)
class Item:
    """One table or figure of the paper."""

    name: str
    """Its number."""
    section: str
    what: str
    """What it shows, in a few words."""
    result: str = ""
    """The result of `slotflow reproduce` that stands beside it; empty where there is none."""
    claims: tuple[Claim, ...] = ()
    """What it says, as rows of that result."""
    studies: tuple[StudyClaims, ...] = ()
    """What it says, as rows of studies."""
    words: str = ""
    """What must be said besides, or why there is neither; nothing that a measurement could change."""
    beside: str = ""
    """What stands beside it instead, in a word or two."""
    quoted: Mapping[str, str] = field(default_factory=dict)
    """Rows whose values are quoted: their measure, as of `Claim`, and what they are called in a word or two."""


def item_line(
    item: Item, records: Mapping[tuple[str, str], Record], studies: Mapping[str, StudyRecord]
) -> list[str]:
    """The line of a table or figure: name, section, subject, what stands beside it, a verdict each, words.

    Args:
        item: The table or figure.
        records: Results by their name and network; the network is empty where there is none.
        studies: Records of studies by their name.
    """
    found = {
        network: records.get((item.result, network), records.get((item.result, "")))
        for network in NETWORKS
    }
    rows = {
        network: {} if record is None else {row["measure"]: row for row in record.content["rows"]}
        for network, record in found.items()
    }
    verdicts = [
        _verdict(_of_claims(item, rows[network], network) + _of_studies(item, studies, network))
        for network in NETWORKS
    ]
    words = [
        *_quotations(item, rows),
        *_tallies(item, studies),
        *([UNTRAINED] if item.result in TAKES_PART_UNTRAINED and not rows[PAPER] else []),
        *([item.words] if item.words else []),
    ]
    return [item.name, item.section, item.what, _beside(item, studies), *verdicts, "; ".join(words)]


def _of_claims(item: Item, rows: Rows, network: str) -> list[bool | None]:
    """Whether each claim of a result held; those without a row are left out."""
    found = [(claim, claim.row(rows, network)) for claim in item.claims]
    return [claim.target.met(float(row["value"])) for claim, row in found if row is not None]


def _of_studies(item: Item, studies: Mapping[str, StudyRecord], network: str) -> list[bool | None]:
    """The verdicts of all studies that were measured."""
    return [
        met
        for claims in item.studies
        if claims.study in studies
        for met in claims.verdicts(studies[claims.study], network)
    ]


def _verdict(held: Sequence[bool | None]) -> str:
    """Held, not held, in part; open where no row is decided, and a dash where there is none."""
    decided = [one for one in held if one is not None]
    if not held:
        return NOTHING
    if not decided:
        return "open"
    return "held" if all(decided) else "in part" if any(decided) else "not held"


def _beside(item: Item, studies: Mapping[str, StudyRecord]) -> str:
    """What stands beside a table or figure."""
    there = [f"`{item.result}`"] if item.result else []
    there += [claims.link for claims in item.studies if claims.study in studies]
    return ", ".join(there) or (NOT_YET if item.studies else item.beside)


def _quotations(item: Item, rows: Mapping[str, Rows]) -> list[str]:
    """The values of the rows that are quoted, those of each network beside each other."""
    words = []
    for measure, name in item.quoted.items():
        values = {
            network: own[measure.format(network=network)]["text"]
            for network, own in rows.items()
            if measure.format(network=network) in own
        }
        if values:
            words.append(f"{name} {', '.join(f'{text} (`{n}`)' for n, text in values.items())}")
    return words


def _tallies(item: Item, studies: Mapping[str, StudyRecord]) -> list[str]:
    """Of each study, how many of all its rows about this table or figure held, or that it is not measured."""
    words = []
    for claims in item.studies:
        if claims.study not in studies:
            words.append(f"the {claims.link} is there, its measurement is not")
            continue
        record = studies[claims.study]
        held = [met for network in claims.patterns for met in claims.verdicts(record, network)]
        open_ones = f", {held.count(None)} open" if None in held else ""
        done, planned = (record["facts"][key] for key in ("rounds", "rounds_planned"))
        part = "" if done == planned else f", in {done} of {planned} rounds"
        words.append(f"{claims.study}: {held.count(True)} of {len(held)} held{open_ones}{part}")
    return words
