"""What the pages of results say beside table and picture: title, origin, command, verdict. Never written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from slotflow.network.model import DEFAULT
from slotflow.studies.paper.files import Record
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.settings import METHODS, NUMBERS, Settings
from slotflow.studies.paper.verdicts import TAKES_PART_UNTRAINED

__all__ = [
    "CONTENTS_WORDS",
    "TITLE",
    "about",
    "command",
    "heading",
    "introduction",
    "quick_look",
    "time_of",
]

TITLE = "The paper's results, reproduced"
INTRODUCTION = (
    "Our value beside that of Houba, Giarda and Speri, SlotFlow (arXiv 2511.23228). Sections and figures are the "
    "paper's. ± is the Monte-Carlo standard error. Targets are those that we set for `zoom`; each is met, missed, or "
    "open where a perfect method could miss it too at this number of signals. Times do not include signals that "
    "an earlier result of the same run had analysed.",
    "“Network alone” means `zoom` without the exact step. It still contains two joint Gauss–Newton steps on the "
    "likelihood, at the end of its slots. What the network reaches if it is trained without them is measured by the "
    "study `zoom_scaling` (docs/studies.md).",
    "The ablations (section 5.3), the sample complexity (appendix B.3 with table 4) and the methods of table 1 are "
    "studies of their own, with small networks on a small task (docs/studies.md). The paper's training run (5.2.1, "
    "figure 20) is not repeated; ours stands beside it (docs/model.md).",
)
"""Paragraphs that stand above all results."""
CONTENTS_WORDS = (
    "In the order of the paper. Two columns say whether what the paper says of a table or figure held with the network "
    "`zoom` alone, and with preset `paper` after our training of it: a claim held where our value is as good as the "
    "printed one or, for a property of the data or of the method, the same. A network that is better than the paper's "
    "does not hold a claim such as “two to three times broader” (figure 8). Studies are about small networks of the "
    "same kind, and the last column counts what held in them. A dash: nothing to judge, or not measured. All of it "
    "follows from the records; what the paper's theory claims is judged by the [studies](studies.md)."
)
"""What stands above the list of all tables and figures."""
OTHER_NETWORKS = (
    "Its weights are not part of the package, and it is no better than its training{spent}, where the paper has 187 "
    "passes over 8 million signals. The recipe is another, and so is the target, whose circle has a thickness "
    "(`radius_jitter`; the paper's has none). docs/model.md has the commands."
)
"""What must be said of any network except the default one."""
HOW_IT_WAS_USED = {
    "network": "alone, without the exact step",
    "exact": "with the exact step behind it",
    "both": "alone and with the exact step behind it",
}
"""How a network was used, for each key of `METHODS`."""


def introduction(
    groups: Sequence[Sequence[Record]], unmeasured: Sequence[str] = ()
) -> tuple[str, ...]:
    """The paragraphs that stand above all results; the last one names what was not measured.

    Args:
        groups: Records of each result.
        unmeasured: Studies without a record.
    """
    networks = {record.model for group in groups for record in group} - {"", DEFAULT}
    *others, last = INTRODUCTION
    if unmeasured:
        several = len(unmeasured) > 1
        names = " and ".join(
            filter(None, (", ".join(f"`{n}`" for n in unmeasured[:-1]), f"`{unmeasured[-1]}`"))
        )
        last += f" Not yet measured {'are the studies' if several else 'is the study'} {names}."
    for network in sorted(networks):
        there = {
            record.result.name for group in groups for record in group if record.model == network
        }
        without = [r for r in RESULTS.values() if "model" in r.uses and r.name not in there]
        untrained = [r for r in without if r.name in TAKES_PART_UNTRAINED]
        if none := [r for r in without if r not in untrained]:
            last += f" Network `{network}` has no result for {_listed(none)}."
        if untrained:
            last += f" In {_listed(untrained)} the paper's network takes part untrained."
    return (*others, last)


def _listed(results: Sequence[Result]) -> str:
    """Numbers and names of results."""
    return ", ".join(f"{NUMBERS[result.name]} ({result.name})" for result in results)


def heading(record: Record) -> str:
    """Number and title of a result."""
    return f"{NUMBERS[record.result.name]}. {record.result.title}"


def about(record: Record) -> str:
    """Where the paper has it and what made ours."""
    made = record.content["made"]
    text = f"Paper, section {record.result.section}. "
    if record.model:
        use = HOW_IT_WAS_USED[made["method"]] if made.get("method") in METHODS else ""
        text += f"Network `{record.model}`{' ' + use if use else ''}."
        if record.model != DEFAULT:
            spent = _spent(record.content["facts"].get("training", {}))
            text += f" {OTHER_NETWORKS.format(spent=spent)}"
    else:
        text += "No network."
    return text


def _spent(training: Data) -> str:
    """What a training took, as far as its weights say."""
    words = []
    if "signals" in training:
        words.append(f"{training['signals']:,} signals")
    if "seconds" in training:
        where = f" of one {training['device']}" if "device" in training else ""
        words.append(f"{training['seconds'] / 60:.0f} minutes{where}")
    return f" on {' in '.join(words)}" if words else ""


def time_of(record: Record) -> str:
    """Wall time and machine."""
    facts = record.content["facts"]
    seconds = facts["seconds"]
    minutes, rest = divmod(round(seconds), 60)
    spent = f"{seconds:g} s" if seconds < 120 else f"{minutes} min {rest:02d} s"
    return f"{spent} on {facts['device']}"


def quick_look(record: Record) -> str:
    """A warning where there are fewer signals than the paper has; empty otherwise."""
    n = record.content["made"].get("n", Settings.n)
    if n >= Settings.n:
        return ""
    return f"A quick look: n = {n:,}, where the paper has {Settings.n:,}."


def command(result: Result, made: Data, source: str | None = None) -> str:
    """The command that makes a result again.

    Args:
        result: The result.
        made: How it was made.
        source: What --model was told.
    """
    words = ["slotflow reproduce", f"--only {result.name}"]
    for name, default in asdict(Settings()).items():
        if made.get(name, default) != default:
            words.append(f"--{name} {made[name]}")
    model = source or made.get("model", {}).get("name", DEFAULT)
    if model != DEFAULT:
        words.append(f"--model {model}")
    if made.get("device", "cpu") != "cpu":
        words.append(f"--device {made['device']}")
    return " ".join(words)
