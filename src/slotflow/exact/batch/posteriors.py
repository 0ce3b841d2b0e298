"""The exact posteriors of many signals as arrays; that of one signal is made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.batch.group import Group
from slotflow.exact.importance import resample
from slotflow.exact.noise_facts import white_facts
from slotflow.exact.orders import Orders
from slotflow.exact.refine import Effort, concluded
from slotflow.exact.refined import RefinedPosterior, exact_method
from slotflow.exact.start import PriorSlots, Start, proposer
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.facts import Facts
from slotflow.posterior.late import SignalFacts
from slotflow.posterior.noise import Estimate
from slotflow.posterior.verdict import Check, Verdict, exact_words, white_words
from slotflow.signal.likelihood import Statistics
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior

__all__ = ["ExactPosteriors", "Judging", "Question", "judging"]

PASSED = "nothing unusual"
"""Words of a test of a batch that was passed."""


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked about every signal of a batch."""

    prior: Prior
    """The prior to answer under."""
    effort: Effort
    """Draws and seed; no order is left for want of time."""
    noise: NoiseModel | None = None
    """White noise, with words that say why it was assumed."""
    assumed: Assumed | None = None
    """What was assumed of the signals."""


class PassedTests(Sequence[Check]):
    """The tests that a signal of a batch has passed, the most deviant first; they are made when they are looked at.

    Args:
        names: Of the tests.
        p_values: Of the signal, (tests,).
    """

    __slots__ = ("names", "p_values")

    def __init__(self, names: tuple[str, ...], p_values: Array) -> None:
        self.names, self.p_values = names, p_values

    def _made(self) -> tuple[Check, ...]:
        order = self.p_values.argsort(kind="stable").tolist()
        return tuple(Check(self.names[i], float(self.p_values[i]), PASSED) for i in order)

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, index: int) -> Check: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Check, ...]: ...

    def __getitem__(self, index: int | slice) -> Check | tuple[Check, ...]:
        return self._made()[index]

    def __iter__(self) -> Iterator[Check]:
        return iter(self._made())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self._made() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._made())

    def __repr__(self) -> str:
        return repr(self._made())


@dataclass(frozen=True, eq=False)
class Judging:
    """The verdict on one signal, to be called for: what the network's device is not needed for."""

    orders: Orders
    """Evidences and draws."""
    observation: Observation
    """The data."""
    k_probs: Array
    """p(K | x) of the network, (K_max + 1,)."""
    sigma: tuple[float, float]
    """Its estimate of the noise level, and the error."""
    question: Question
    """What was asked."""

    def __call__(self) -> Verdict:
        """The verdict that the posterior of the signal has."""
        question, observation = self.question, self.observation
        start = Start(
            observation=observation,
            k_probs=self.k_probs,
            components=(),
            slots=PriorSlots(question.prior, observation),
            sigma=self.sigma,
            proposed_by="",
            method="",
        )
        likelihood = Statistics.from_observation(observation)
        draws, noise = question.effort.draws, question.noise
        return concluded(self.orders, start, likelihood, question.prior, draws, noise).verdict


class ExactPosteriors(Batched):
    """The exact posteriors of signals that a batch has decided.

    The verdicts of all of them come from the batch and name the tests that were passed; that of `one` describes them.

    Args:
        amortized: The network's posteriors.
        members: For each signal its row there, its group, and its row in the group.
        question: What was asked.
        undecided: How many other signals of the batch there are of each reason for not being decided.
    """

    log_evidence: Array
    ess: Array

    def __init__(
        self,
        amortized: Batched,
        members: Sequence[tuple[int, Group, int]],
        question: Question,
        undecided: Mapping[str, int],
    ) -> None:
        self.amortized, self.members, self.question = amortized, members, question
        self.undecided = dict(undecided)
        size = amortized.k_max + 1
        k_probs = np.zeros((len(members), size))
        self.log_evidence = np.full((len(members), size, 2), -np.inf)
        self.log_evidence[..., 1] = np.inf
        self.ess = np.zeros(len(members))
        level = np.zeros((len(members), 2))
        for group, rows, own in self._by_group(np.arange(len(members))):
            known = group.k_probs.shape[1]
            k_probs[rows, :known] = group.k_probs[own]
            self.log_evidence[rows, :known, 0] = group.log_evidence[own]
            self.log_evidence[rows, group.k, 1] = group.facts["log_evidence_error"][own]
            if group.sigma_alone.shape[1]:
                self.log_evidence[rows, 0, 1] = 0.0
            self.ess[rows], level[rows] = group.facts["ess"][own], group.levels[own]
        super().__init__(k_probs, level[:, 0], level[:, 1], amortized.resolution)

    def _by_group(self, rows: Rows) -> list[tuple[Group, Rows, Rows]]:
        """Groups that some signals belong to, each with the rows of its signals here and in the group."""
        found: dict[int, tuple[Group, list[int], list[int]]] = {}
        for row in rows.tolist():
            _, group, i = self.members[row]
            _, here, there = found.setdefault(id(group), (group, [], []))
            here.append(row)
            there.append(i)
        return [(group, np.array(here), np.array(there)) for group, here, there in found.values()]

    def one(self, row: int) -> RefinedPosterior:
        """The posterior of one signal."""
        origin, group, i = self.members[row]
        question = self.question
        start = Start.from_posterior(
            self.amortized.one(origin), question.prior, question.effort.seed
        )
        likelihood = Statistics.from_observation(start.observation)
        post = concluded(
            group.orders(i), start, likelihood, question.prior, question.effort.draws, question.noise
        )  # fmt: skip
        post.assumed = question.assumed
        return post

    def facts(self, rows: Rows) -> list[Facts]:
        """What is known of some signals without a draw; the residual is not tested again, as it is in `one`.

        A misfit, which tests of single signals may find where tones change, is the posterior itself.
        """
        question = self.question
        found: list[Facts] = []
        assert self.noise_std_error is not None
        origins = np.array([self.members[row][0] for row in rows.tolist()])
        network = self.amortized.facts(origins[:1])[0].method if len(rows) else ""
        for row, verdict in zip(rows.tolist(), self.verdicts(rows), strict=True):
            if verdict.status == "misfit":
                found.append(self.one(row))
                continue
            observation = self.observation(row)
            level = Estimate(float(self.noise_std[row]), float(self.noise_std_error[row]))
            one = SignalFacts(
                self.k_probs[row],
                lambda row=row: self.one(row).slots,  # type: ignore[misc]
                observation,
                (level.mean, level.sd),
                exact_method(network),
                question.prior,
                verdict,
            )
            one.log_evidence, one.ess = self.log_evidence[row], float(self.ess[row])
            one.noise = white_facts(observation, question.prior, question.noise, level)
            one.proposed_by, one.assumed = proposer(network), question.assumed
            found.append(one)
        return found

    def prior_of(self, row: int) -> Prior:
        """The prior that all signals were answered under."""
        return self.question.prior

    def observation(self, row: int) -> Observation:
        """The data of one signal."""
        return self.amortized.observation(self.members[row][0])

    @property
    def changing(self) -> list[int]:
        """Rows of signals whose tones may change, and on which no verdict was given yet."""
        return [
            int(row)
            for group, here, there in self._by_group(np.arange(len(self.members)))
            for row, i in zip(here, there, strict=True)
            if not group.steady[i] and int(i) not in group.judged
        ]

    def judging(self, row: int) -> Judging:
        """What is needed for the verdict on a signal whose tones may change."""
        return judging(self.amortized, self.members[row], self.question)

    def verdicts(self, rows: Rows) -> list[Verdict]:
        """How far the results of some signals can be trusted; where tones may change, what `one` says of them."""
        found: dict[int, Verdict] = {}
        for group, here, there in self._by_group(rows):
            steady = group.steady[there]
            passed = _passed(group, there[steady])
            found |= zip(here[steady].tolist(), passed, strict=True)
            for row, i in zip(here[~steady].tolist(), there[~steady].tolist(), strict=True):
                if i not in group.judged:
                    group.judged[i] = self.judging(row)()
                found[row] = group.judged[i]
        return [found[row] for row in rows.tolist()]

    def draws(
        self, rows: Rows, counts: Rows, sizes: Rows, seeds: Rows, out: Array | None = None
    ) -> Array:
        """Draws of Θ given K of some signals, (S, n, k, P); the network's where a K was not sampled."""
        out = self.room(counts, sizes, out)
        sampled = np.array([self.members[row][1].k for row in rows.tolist()]) == counts
        for s in np.flatnonzero(sampled).tolist():
            _, group, i = self.members[int(rows[s])]
            rng, n = np.random.default_rng(int(seeds[s])), int(sizes[s])
            index = resample(np.exp(group.log_weights[i]), n, rng)
            out[s, :n, : group.k] = group.theta[i, index]
        others = np.flatnonzero(~sampled & (counts > 0))
        if others.size:
            origin = np.array([self.members[row][0] for row in rows[others].tolist()])
            drawn = self.amortized.draws(origin, counts[others], sizes[others], seeds[others])
            out[others, : drawn.shape[1], : drawn.shape[2]] = drawn
        return out


def judging(network: Batched, member: tuple[int, Group, int], question: Question) -> Judging:
    """What is needed for the verdict on a signal of a group whose tones may change.

    Args:
        network: The network's posteriors.
        member: The signal's row there, its group, and its row in the group.
        question: What was asked.
    """
    origin, group, i = member
    assert network.noise_std_error is not None
    sigma = float(network.noise_std[origin]), float(network.noise_std_error[origin])
    data = network.observation(origin)
    return Judging(group.orders(i), data, network.k_probs[origin], sigma, question)


def _passed(group: Group, rows: Rows) -> list[Verdict]:
    """Verdicts on steady signals that a group has decided: these have passed all tests, and their draws are good."""
    names = tuple(group.p_values)
    p = np.stack(list(group.p_values.values()), -1)[rows]  # (S, tests)
    white = white_words([Check(name, 1.0, PASSED) for name in names])
    return [
        Verdict("exact", exact_words(ess, white), PassedTests(names, own))
        for own, ess in zip(p, group.facts["ess"][rows].tolist(), strict=True)
    ]
