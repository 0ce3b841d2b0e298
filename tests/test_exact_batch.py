"""The exact step in batches: every part beside the one of a single signal, and what a batch leaves alone."""

from __future__ import annotations

import math
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special

from slotflow import Observations, Prior, SlotFlow, Stream, simulate
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.exact.batch import answers as batch_answers
from slotflow.exact.batch import draws as draws_of_batches
from slotflow.exact.batch.answers import suits_batches
from slotflow.exact.batch.bent import bent_batch
from slotflow.exact.batch.draws import Numbers
from slotflow.exact.batch.fits import Fits, fitted
from slotflow.exact.batch.group import DECIDED, Group, decide, decide_empty
from slotflow.exact.batch.levels import Levels
from slotflow.exact.batch.near import REACH, error, near
from slotflow.exact.batch.neighbours import one_more
from slotflow.exact.batch.posteriors import PASSED, ExactPosteriors, PassedTests
from slotflow.exact.importance import pareto_k, tail_shape, tail_size
from slotflow.exact.proposals.births import BirthTable
from slotflow.exact.proposals.collapsed import Bent, spread_out
from slotflow.exact.refined import RefinedPosterior
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.infer import run
from slotflow.infer.call import Case
from slotflow.infer.look import look_at, unremarkable
from slotflow.infer.rest import Rest
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import Check
from slotflow.signal.likelihood import Statistics
from slotflow.signal.noise.white import log_marginal
from slotflow.signal.simulation import tones
from slotflow.signal.waveforms import TONE

GRIDS = Grid(600, 0.1), Grid(512, 1 / 512)
PRIOR = Prior(k_min=0, k_max=4, min_separation=0.05, sigma=(0.0, 0.4))
"""30 bins of 1/60 Hz, tones three bins apart."""
CPU = torch.device("cpu")
DRAWS = 1000


def observed(
    n: int, k: int, seed: int, prior: Prior = PRIOR
) -> tuple[list[Observation], torch.Tensor]:
    """Signals of k tones, and the true frequencies, (n, k)."""
    sim = simulate(prior, n, *GRIDS, mode="physical", seed=seed, k=k)
    places = TONE.place_of(sim.theta[:, :k].double())
    return [sim.observation(i) for i in range(n)], places.sort(dim=-1).values


def found(n: int, k: int, seed: int) -> tuple[Statistics, Fits]:
    observations, places = observed(n, k, seed)
    statistics = Statistics.from_observation(observations)
    return statistics, fitted(statistics, places, PRIOR)


def decided(
    observations: Sequence[Observation], places: torch.Tensor, prior: Prior = PRIOR
) -> Group:
    numbers = Numbers(0, places.shape[1], DRAWS, CPU)
    return decide(Statistics.from_observation(observations), places, prior, numbers)


# ---------------------------------------------------------------------- parts


def test_matched_filters_at_common_frequencies_are_those_of_each_signal() -> None:
    statistics = Statistics.from_observation(observed(3, 2, 5)[0])
    f = torch.linspace(*PRIOR.frequency, 200, dtype=torch.float64)
    each = statistics.matched(f.expand(3, -1)[..., None])[..., 0]
    scale = float(each.abs().max())
    torch.testing.assert_close(statistics.matched_alike(f), each, rtol=0, atol=1e-11 * scale)
    assert (statistics.matched_alike(f + 0.1)[:, 0] - each[:, 0]).abs().max() > 1e-3 * scale


@pytest.mark.parametrize("share", [0.5, 0.06])
def test_noise_levels_between_bounds_have_the_law_of_their_draws(share: float) -> None:
    """v = RSS/2σ² is a gamma variable between its values at the bounds, however much these cut off."""
    observations, _ = observed(3, 1, 8)
    statistics = Statistics.from_observation(observations)
    a, rss = 0.5 * (statistics.n - 1), statistics.energy[:, None].expand(-1, 4000)
    high = math.sqrt(0.5 * float(rss[0, 0]) / special.gammaincinv(a, 1 - share))
    levels = Levels(statistics, Prior(k_min=0, sigma=(0.0, high)))
    sigma = levels.sample(rss, (0, 1))[0].numpy()
    assert sigma.max() <= high

    def distance(least: float) -> float:
        """Largest distance from a uniform law of where draws lie among those that σ ≤ high leaves."""
        u = np.sort((special.gammainc(a, 0.5 * float(rss[0, 0]) / sigma**2) - least) / (1 - least))
        return float(np.abs(u - (np.arange(u.size) + 0.5) / u.size).max())

    assert distance(1 - share) < 2.2 / math.sqrt(4000)  # exceeded by one sample in 10⁴
    assert distance(0.0) > 0.1  # as if nothing were cut off


def test_candidates_are_not_made_for_signals_that_none_would_help() -> None:
    n = 1000
    inside, candidates = torch.tensor([n, 2, 40, 0]), torch.tensor([2 * n, 2 * n, 2 * n, n])
    kept = draws_of_batches._Kept(*[inside.double()] * 3, inside, candidates)
    assert draws_of_batches._is_hopeless(kept, n).tolist() == [False, True, False, False]


@pytest.mark.parametrize("k", [1, 3])
def test_tables_are_the_likelihood(k: int) -> None:
    """RSS of draws up to seven standard deviations away, within the bound that is stated beforehand."""
    statistics, fits = found(5, k, 1)
    tables = near(statistics, fits.places, fits.spread)
    generator = torch.Generator().manual_seed(0)
    uniform = 2 * torch.rand(5, 200, k, generator=generator, dtype=torch.float64) - 1
    away = REACH * fits.spread[:, None] * uniform
    _, c = TONE.simple(fits.z)
    c = c[:, None] * (1 + 0.1 * uniform.flip(1))
    exact = statistics.gains((fits.places[:, None] + away)[..., None], c[..., None])
    level = (fits.rss / statistics.n)[:, None]
    off = ((tables.gains(away, c) - exact) / (2 * level)).abs().amax(-1)
    bound = k * error(statistics, fits.spread, fits.strength) + 1e-7
    assert (off < bound).all()
    wide = near(statistics, fits.places, 3 * fits.spread)  # a longer reach has a larger error
    assert ((wide.gains(away, c) - exact) / (2 * level)).abs().amax() > 10 * off.amax()


def test_proposals_are_those_of_single_signals() -> None:
    statistics, fits = found(4, 2, 2)
    levels = Levels(statistics, PRIOR)
    tables = near(statistics, fits.places, fits.spread)
    more = spread_out(statistics.n, 2)
    proposal = bent_batch(
        tables, fits.place_covariance, lambda gain: levels.precision((levels.energy - gain) * more), 1.0
    )  # fmt: skip
    assert proposal.sound.all()
    u = np.random.default_rng(0).standard_normal((50, 6))
    away, c = proposal.from_normal(torch.from_numpy(u))
    for i in range(4):
        target = Target(statistics.take(torch.tensor([i])), PRIOR, 2)
        single = Bent(target, fits.z[i].numpy(), fits.covariance[i].numpy())
        place, amplitude = TONE.simple(single.from_normal(u))
        spread = fits.spread[i].numpy()
        off = (away[i] + fits.places[i]).numpy() - place
        np.testing.assert_allclose(off / spread, 0, atol=1e-6)
        np.testing.assert_allclose(c[i].numpy(), amplitude, rtol=1e-6)
        assert float(proposal.normalizer[i]) == pytest.approx(single.normalizer, abs=1e-6)


def test_one_tone_more_is_bounded() -> None:
    """The bound lies above what a table over all cells and amplitudes says, and still excludes the tone."""
    statistics, fits = found(6, 2, 3)
    bound = one_more(statistics, fits, Levels(statistics, PRIOR), PRIOR)
    for i in range(6):
        target = Target(statistics.take(torch.tensor([i])), PRIOR, 2)
        gaussian = target.gaussian(fits.z[i].numpy())
        assert gaussian is not None
        table = BirthTable(target, fits.z[i].numpy(), gaussian[1])
        gain = table.log_gain + math.log(3)
        assert gain < float(bound[i]) < 0.5 * gain


def test_formulas_are_the_same_in_both_libraries() -> None:
    rng = np.random.default_rng(0)
    rss = np.exp(rng.uniform(2, 12, 300))
    for low, high in ((1e-3, 1e3), (0.9, 1.1), (2.0, 2.0)):
        ours = log_marginal(torch.from_numpy(rss), 1112, low, high).numpy()
        np.testing.assert_allclose(ours, log_marginal(rss, 1112, low, high), rtol=1e-9, atol=1e-8)
    log_w = rng.standard_normal((3, 2000)) * np.array([[0.1], [1.0], [3.0]])
    tail = tail_size(2000)
    w = np.sort(np.exp(log_w - log_w.max(-1, keepdims=True)), -1)
    excess = torch.from_numpy(w[:, -tail:] - w[:, -tail - 1, None])
    alone = [pareto_k(one) for one in log_w]
    np.testing.assert_allclose(tail_shape(excess).numpy(), alone, rtol=1e-9)
    assert alone[2] > 0.5 > alone[0]


# ---------------------------------------------------------------------- evidence and draws


@pytest.mark.parametrize("k", [1, 2, 4])
def test_answers_are_those_of_single_signals(k: int) -> None:
    """Evidence within its errors, p(K), means and widths within those of so many draws."""
    observations, places = observed(6, k, 10 + k)
    group = decided(observations, places)
    assert sum(reason == DECIDED for reason in group.reasons) >= 4, group.reasons
    pulls = []
    for i, one in enumerate(observations):
        if group.reasons[i]:
            continue
        statistics = Statistics.from_observation(one)
        start = statistics.to_theta(TONE.from_simple(places[i], torch.ones(k) + 0j)).numpy()
        alone = across_orders(statistics, PRIOR, starts=[start], draws=DRAWS)
        ours = group.orders(i)
        errors = [x.log_evidence_error[k] for x in (ours, alone)]
        pulls.append((ours.log_evidence[k] - alone.log_evidence[k]) / math.hypot(*errors))
        np.testing.assert_allclose(ours.k_probs, alone.k_probs, atol=1e-3)
        assert ours.methods[k] == alone.methods[k] and ours.largest == alone.largest
        np.testing.assert_allclose(ours.fits[k], alone.fits[k], rtol=1e-6)
        means, widths = zip(*(_moments(x.results[k]) for x in (ours, alone)), strict=True)
        limit = 5 * math.sqrt(2 / DRAWS)
        np.testing.assert_allclose((means[0] - means[1]) / widths[1], 0, atol=limit)
        np.testing.assert_allclose(widths[0] / widths[1], 1, atol=limit)
    assert np.sqrt(np.mean(np.square(pulls))) < 2.5


def _moments(result):  # type: ignore[no-untyped-def]
    """Means and standard deviations of amplitudes, frequencies and σ."""
    w = np.exp(result.log_weights)
    columns = [
        TONE.of(result.theta, "amplitude"),
        TONE.place_of(result.theta),
        result.sigma[:, None],
    ]
    x = np.concatenate(columns, -1)
    mean = w @ x
    return mean, np.sqrt(w @ (x - mean) ** 2)


def test_signals_without_tones_are_those_of_single_signals() -> None:
    """Noise alone is decided; with a tone in it, it is not."""
    sim = simulate(PRIOR, 5, *GRIDS, mode="physical", seed=40, k=0)
    observations = [sim.observation(i) for i in range(5)]
    group = decide_empty(
        Statistics.from_observation(observations), PRIOR, Numbers(0, 0, DRAWS, CPU)
    )
    assert group.reasons.count(DECIDED) >= 3, group.reasons
    for i, one in enumerate(observations):
        if group.reasons[i]:
            continue
        alone = across_orders(Statistics.from_observation(one), PRIOR, draws=DRAWS)
        ours = group.orders(i)
        assert ours.k_map == alone.k_map == 0 and ours.methods[0] == alone.methods[0] == "analytic"
        assert ours.log_evidence[0] == pytest.approx(alone.log_evidence[0], abs=1e-8)
        np.testing.assert_allclose(ours.k_probs, alone.k_probs, atol=1e-6)
        spread = alone.results[0].sigma.std()
        off = (ours.results[0].sigma.mean() - alone.results[0].sigma.mean()) / spread
        assert abs(off) < 5 * math.sqrt(2 / DRAWS)
    loud, _ = observed(3, 1, 41)
    found_none = decide_empty(Statistics.from_observation(loud), PRIOR, Numbers(0, 0, DRAWS, CPU))
    assert set(found_none.reasons) == {"neighbours of K"}


def test_nobody_depends_on_the_others() -> None:
    observations, places = observed(5, 2, 20)
    together = decided(observations, places)
    alone = decided(observations[3:4], places[3:4])
    assert together.reasons[3] == alone.reasons[0]
    np.testing.assert_allclose(together.log_evidence[3], alone.log_evidence[0], atol=1e-8)
    np.testing.assert_allclose(together.theta[3], alone.theta[0], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(together.sigma[3], alone.sigma[0], rtol=1e-7)


def test_a_bad_start_harms_nobody_else() -> None:
    """Two tones that start in one place, and a start that is no number."""
    observations, places = observed(5, 2, 20)
    sound = decided(observations, places)
    bad = places.clone()
    bad[1, 1], bad[3] = bad[1, 0], math.nan
    among = decided(observations, bad)
    assert among.reasons[1] != DECIDED and among.reasons[3] != DECIDED
    for i in (0, 2, 4):
        assert among.reasons[i] == sound.reasons[i]
        np.testing.assert_allclose(among.log_evidence[i], sound.log_evidence[i], atol=1e-8)
    assert DECIDED not in decided(observations, torch.full_like(places, math.nan)).reasons


def test_what_a_batch_leaves_alone() -> None:
    """A count that is wrong by one, tones that hardly show, tones too near for one Gaussian."""
    observations, places = observed(4, 3, 30)
    fewer = decided(observations, places[:, :2])
    assert DECIDED not in fewer.reasons and "neighbours of K" in fewer.reasons
    strong = Prior(k_min=0, k_max=4, min_separation=0.05, amplitude=(0.02, 1.5))
    quiet = Prior(k_min=0, k_max=4, min_separation=0.05, amplitude=(0.02, 0.05), sigma=(0.9, 1.1))
    weak, where = observed(4, 1, 31, quiet)
    assert DECIDED not in decided(weak, where, strong).reasons
    near_prior = Prior(k_min=0, k_max=4, min_separation=0.013, sigma=(0.0, 0.2))
    bins = 1 / GRIDS[0].duration
    pair = torch.tensor([[2.75, 2.75 + 0.9 * bins]], dtype=torch.float64)
    theta = TONE.to_theta(TONE.from_simple(pair, torch.ones(1, 2) + 0j), GRIDS[0].mid_time)
    generator = torch.Generator().manual_seed(0)
    series = [
        tones(theta, grid).double() + 0.1 * torch.randn(1, grid.n, generator=generator)
        for grid in GRIDS
    ]
    beside = decide(
        Statistics.from_arrays(series, GRIDS), pair, near_prior, Numbers(0, 2, 200, CPU)
    )
    assert beside.reasons == ["close tones"]


# ---------------------------------------------------------------------- from signals to posteriors


def nominal(zoom: SlotFlow, n: int, seed: int = 3) -> list[Observation]:
    sim = simulate(Prior(), n, zoom.config.long, zoom.config.short, mode="physical", seed=seed)
    return [sim.observation(i) for i in range(n)]


def test_many_signals_are_answered_as_each_of_them(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same counts, evidences and verdicts; a chunk that does not fit into memory is halved."""
    signals, prior = nominal(zoom, 10), Prior()
    together = zoom.infer(signals, prior=prior, draws=DRAWS)
    (batch, rows, places), *_ = together.batches()
    assert isinstance(batch, ExactPosteriors) and len(rows) >= 8
    drawn, counts = together.sample(20)
    assert (counts == together.k_map[:, None]).all()
    for row, place in zip(rows.tolist(), places.tolist(), strict=True):
        post, verdict = together[place], batch.verdicts(rows[row : row + 1])[0]
        alone = zoom.infer(signals[place], prior=prior, draws=DRAWS)
        assert isinstance(post, RefinedPosterior) and isinstance(alone, RefinedPosterior)
        k = alone.k_map
        assert post.k_map == k and post.assumed == alone.assumed and post.method == alone.method
        assert str(verdict) == str(post.verdict) and verdict.status == alone.verdict.status
        assert {c.name for c in verdict.checks} == {c.name for c in alone.verdict.checks}
        errors = [x.log_evidence[k, 1] for x in (post, alone)]
        off = post.log_evidence[k, 0] - alone.log_evidence[k, 0]
        assert abs(off) < 5 * math.hypot(*errors)
        np.testing.assert_array_equal(batch.log_evidence[row], post.log_evidence)
        assert batch.noise_std[row] == pytest.approx(post.noise_std)
        np.testing.assert_allclose(drawn[place, :, :k], post.sample_joint(20)[0][:, :k])
    monkeypatch.setitem(batch_answers.CHUNKS_AT_A_TIME, "cpu", 3)  # as beside a GPU
    threaded = zoom.infer(signals, prior=prior, draws=DRAWS)
    np.testing.assert_array_equal(threaded.k_probs, together.k_probs)
    np.testing.assert_array_equal(threaded.sample(20)[0], drawn)
    assert [str(v) for v in threaded.verdicts] == [str(v) for v in together.verdicts]
    sizes = list[int]()

    def short_of_memory(statistics: Statistics, *others: object) -> Group:
        sizes.append(len(statistics.energy))
        if sizes[-1] > 1:
            raise torch.OutOfMemoryError("no room")
        return decide(statistics, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(batch_answers, "decide", short_of_memory)
    again = zoom.infer(signals, prior=prior, draws=DRAWS)
    assert max(sizes) > 1 and sizes.count(1) >= len(rows)
    np.testing.assert_allclose(again.k_probs, together.k_probs, atol=1e-9)


def test_tests_that_were_passed_are_made_when_they_are_looked_at() -> None:
    """As good as a tuple of them, the most deviant first, in files and pickles too."""
    passed = PassedTests(("level", "colour", "lags (long)"), np.array([0.5, 0.02, 0.9]))
    plain = (Check("colour", 0.02, PASSED), Check("level", 0.5, PASSED), Check("lags (long)", 0.9, PASSED))  # fmt: skip
    assert tuple(passed) == plain and passed == plain and hash(passed) == hash(plain)
    assert len(passed) == 3 and passed[0] == plain[0] and passed[1:] == plain[1:]
    assert pickle.loads(pickle.dumps(passed)) == passed != plain[:2]


def test_signals_that_are_left_are_told_once_and_early(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals, heard = nominal(zoom, 10), list[list[int]]()
    values = signals[4].long.values
    values[:300] += values.std() * np.random.default_rng(0).standard_normal(300)  # a burst
    take = Rest.take

    def listen(self: Rest, places: Sequence[int]) -> None:
        heard.append([place for place in places if place not in self._taken])
        take(self, places)

    monkeypatch.setattr(Rest, "take", listen)
    posts = zoom.infer(signals, prior=Prior(), draws=DRAWS)
    alone = [i for part, _, places in posts.batches() if isinstance(part, Posterior) for i in places]  # fmt: skip
    assert sorted(place for some in heard for place in some) == sorted(alone) and 4 in alone
    assert heard[-1] == []  # the last time nothing was new


def test_odd_signals_among_many_are_answered_alone(zoom: SlotFlow) -> None:
    """A burst and a clipped series get the verdicts that they get alone."""
    signals, prior = nominal(zoom, 9, seed=4), Prior()
    burst, clipped = signals[2].long.values.copy(), np.clip(signals[7].long.values, -1.0, 1.0)
    burst[:200] *= 4
    for i, values in ((2, burst), (7, clipped)):
        signals[i] = Observation(Stream(values, signals[i].long.dt), signals[i].short)
    together = zoom.infer(signals, prior=prior, draws=DRAWS, noise="white", max_seconds=2)
    (batch, _, places), *_ = together.batches()
    assert isinstance(batch, ExactPosteriors) and not {2, 7} & set(places.tolist())
    assert [together[i].verdict.status for i in (2, 7)] == ["misfit", "misfit"]


def test_one_failure_does_not_end_the_others(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals, prior = nominal(zoom, 9, seed=4), Prior()
    clipped = np.clip(signals[7].long.values, -1.0, 1.0)  # not for the batch
    signals[7] = Observation(Stream(clipped, signals[7].long.dt), signals[7].short)

    def fails(*_: object, **__: object) -> None:
        raise ValueError("math domain error")

    monkeypatch.setattr(Posterior, "refine", fails)
    with pytest.warns(UserWarning, match="signal 7: the exact step failed"):
        together = zoom.infer(signals, prior=prior, draws=DRAWS, noise="white")
    assert len(together) == 9 and together[0].verdict.status == "exact"
    assert together[7].verdict.status == "approximate" and together[7].k_map > 0


def _fail_on(values: np.ndarray, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the exact step of one signal fail."""
    exact = run._exact

    def fails(model: SlotFlow, case: Case, *more: Any) -> Posterior:
        if np.array_equal(case.given.long.values, values):
            raise error
        return exact(model, case, *more)

    monkeypatch.setattr(run, "_exact", fails)


@pytest.mark.parametrize("bounds", [{}, {"amplitude": (0.1, 3), "sigma": (0, 2)}])
@pytest.mark.parametrize("error", [ValueError("no"), vars(torch.linalg)["LinAlgError"]("no")])
def test_a_failure_costs_nobody_else_the_answer(
    zoom: SlotFlow, bounds: dict[str, Any], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is stated, in a list or one after another; a signal alone has nothing to lose."""
    rng = np.random.default_rng(0)
    values = 0.5 * rng.standard_normal((3, 300)) + np.cos(2 * np.pi * 0.27 * np.arange(300))
    signals = [Observation(Stream(x, 1.0)) for x in values]
    asked: dict[str, Any] = {"prior": {"frequency": (0.2, 0.3)} | bounds, "draws": 200}
    _fail_on(values[1], error, monkeypatch)
    for ask in (zoom.infer, zoom.infer_each):
        with pytest.warns(UserWarning, match="signal 1: the exact step failed.*the network's"):
            posts = list(ask(signals, **asked))
        assert [post.method.endswith("exact") for post in posts] == [True, False, True]
    with pytest.raises(type(error), match="no"):
        zoom.infer(signals[1], **asked)


def test_a_failure_in_data_that_no_network_reads(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((2, 200)) + np.cos(2 * np.pi * 0.13 * np.arange(200))
    signals = [Observation(Stream(x, 1.0, errors=np.ones(200))) for x in values]
    _fail_on(values[0], ValueError("no"), monkeypatch)
    with pytest.warns(UserWarning, match="signal 0: the exact step failed.*not sampled"):
        posts = zoom.infer(signals, prior={"frequency": (0.1, 0.16)}, draws=500, noise="white")
    assert "the exact step failed" in posts[0].verdict.reason and posts[1].k_map == 1
    assert posts[0].verdict.status != "exact" and posts[0].assumed is not None


def test_a_bad_signal_is_named_before_the_others_are_answered(
    zoom: SlotFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers(*_: object) -> None:
        raise AssertionError("answered before all signals were checked")

    monkeypatch.setattr(type(zoom), "infer_arrays", answers)
    monkeypatch.setattr(run, "_answers", answers)
    signals, prior = nominal(zoom, 9, seed=4), Prior()
    dt, rows = signals[0].long.dt, np.stack([one.long.values for one in signals])
    for value, words in ((np.nan, "all missing"), (np.inf, "infinite")):
        bad = rows.copy()
        bad[6] = value
        with pytest.raises(ValueError, match=f"signal 6: .*{words}"):
            zoom.infer(Observations.from_arrays(bad, dt), prior=prior)
    short = [*signals[:5], Observation(Stream(np.arange(5.0) % 2, dt)), *signals[5:]]
    loud = [*signals[:5], Observation(Stream(1e30 * rows[5], dt)), *signals[5:]]
    for many in (short, loud):
        with pytest.raises(ValueError, match="signal 5: "):
            zoom.infer(many, prior=prior, method="network")
    constant = [*signals[:2], Observation(Stream(np.ones(3000), dt))]
    for ask in (zoom.infer, zoom.infer_each):
        with pytest.raises(ValueError, match="signal 2: expected a series that varies"):
            ask(constant)


def test_signals_of_other_noise_are_seen_before(zoom: SlotFlow) -> None:
    """Colour and lines outside the band, which the look at a single signal finds as well."""
    signals, band = nominal(zoom, 20, seed=5), Prior().frequency
    grid = zoom.config.long
    noise = np.cumsum(np.random.default_rng(0).standard_normal(grid.n))
    red, line = signals[3].long.values + 0.3 * noise, signals[4].long.values.copy()
    line += 2 * np.cos(2 * np.pi * 1.2 * grid.dt * np.arange(grid.n))
    for i, values in ((3, red), (4, line)):
        signals[i] = Observation(Stream(values, grid.dt), signals[i].short)
    series = torch.from_numpy(np.stack([one.long.values for one in signals])).double()
    plain = unremarkable(series, grid.duration, band).tolist()
    looks = [look_at(one.long) for one in signals]
    alone = [not (len(x.peaks_outside(band)) or x.is_coloured_outside(band)) for x in looks]
    assert not any(plain[i] and not alone[i] for i in range(20))
    assert plain[3:5] == alone[3:5] == [False, False] and sum(plain) >= 16


def test_priors_of_close_tones_are_left_alone(zoom: SlotFlow) -> None:
    bins = 1 / zoom.config.long.duration
    assert suits_batches(Prior(), bins)
    assert not suits_batches(Prior(min_separation=0.0), bins)
    assert not suits_batches(Prior(sigma=(1.0, 1.0)), bins)
    assert not suits_batches(Prior(k_max=3, k_probs=(0.5, 0.0, 0.5)), bins)
