"""Pictures: what they show, that they need no window, and that they are written whole."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from posterior_helpers import PRIOR, TONES, GaussianSlots, gaussian_posterior, shuffled
from tone_helpers import model

from slotflow import Grid, Observation, Posterior, Stream
from slotflow.posterior.sampled import Draws
from slotflow.show.plots import plot_corner, plot_posterior, plot_training, save_figure
from slotflow.show.plots.colours import COLOURS, GROUND, colour_of, contrast, text_colour
from slotflow.show.plots.components import _decimals, draw_components
from slotflow.show.plots.family import KINDS
from slotflow.show.plots.units import clock, quantity, scale, symbol_of, texts, with_unit
from slotflow.show.plots.view import View
from slotflow.signal.waveforms import Parameter, Tone, Waveform

TRUTH = TONES


def gaussian(k: int, short: bool = True, prior: bool = True) -> Posterior:
    """A posterior of K Gaussians, beside data with three tones; its noise level is known with a short stream."""
    post = gaussian_posterior(
        np.eye(4)[k].tolist(), present=3, short=short, prior=PRIOR if prior else None
    )
    if not short:
        post.noise_std = float("nan")
    return post


def words(figure: Any) -> str:
    """All text of a figure."""
    import matplotlib.text

    return "\n".join(t.get_text() for t in figure.findobj(matplotlib.text.Text))


@pytest.mark.parametrize(
    ("k", "with_truth", "prior"),
    [(0, True, True), (0, False, False), (1, False, True), (3, True, True), (3, False, False)],
)
def test_posterior(tmp_path: Path, k: int, with_truth: bool, prior: bool) -> None:
    post = gaussian(k, short=with_truth, prior=prior)
    figure = plot_posterior(post, TRUTH if with_truth else None)
    assert len(figure.axes) == 6
    text = words(figure)
    assert f"{k} component{'' if k == 1 else 's'} (probability > 0.999)" in text
    assert ("true K" in text) == with_truth
    assert ("noise σ = 0.3" in text) == with_truth
    assert ("no component to show" in text) == (k == 0)
    assert "approximate: amortized only" in text and "q(K | x), not exact" in text
    save_figure(figure, tmp_path / "a.png", dpi=40)
    assert [p.name for p in tmp_path.iterdir()] == ["a.png"]


def test_components_are_sorted_and_marked_with_their_truth() -> None:
    figure = plot_posterior(gaussian(3), TRUTH)
    amplitude, phase, frequency = figure.axes[3:]
    labels = [label.get_text() for label in amplitude.get_yticklabels()]
    assert [label.split()[0] for label in labels] == ["1", "2", "3"]
    np.testing.assert_allclose([float(s.split()[1]) for s in labels], TRUTH[:, 2], atol=1e-3)
    for column, ax in enumerate((amplitude, phase, frequency)):
        crosses = [line.get_xdata()[0] for line in ax.get_lines() if line.get_marker() == "x"]
        values = [text.get_text() for text in ax.texts]  # "0.701 ± 0.010 rad" beside each row
        medians = [float(value.split()[0]) for value in values]
        digits = max(len(value.split()[0].partition(".")[2]) for value in values)
        offset = TRUTH[:, column] - medians
        if column == 1:
            offset = np.mod(offset + np.pi, 2 * np.pi) - np.pi  # across 0 for the first
        np.testing.assert_allclose(
            unit_of(ax) * np.array(crosses), offset, atol=0.6 * 10.0**-digits
        )
        assert np.abs(crosses).max() > 0


def unit_of(ax: Any) -> float:
    """What one on the axis stands for, from the unit in its title."""
    title = ax.get_title() or ax.get_title(loc="left")
    if "$10^" in title:
        return 10.0 ** int(title.split("{")[1].split("}")[0])
    unit = title.partition("[")[2].rstrip("]")
    return {"µ": 1e-6, "m": 1e-3}.get(unit[:1], 1.0)


@pytest.mark.parametrize(
    ("value", "sd", "unit", "text"),
    [
        (2.60413, 0.00021, "Hz", "2.60413 ± 0.00021 Hz"),
        (0.701, 0.0101, "rad", "0.701 ± 0.010 rad"),
        (0.0524, 0.0013, "", "0.0524 ± 0.0013"),
        (3.00046183e-3, 3.6e-10, "Hz", "3.00046183(36) mHz"),
        (6.0612e-5, 2.4e-8, "Hz", "60.612 ± 0.024 µHz"),
        (2.123456789012, 3.6e-11, "Hz", "2.123456789012(36) Hz"),
        (1.584e-21, 3.6e-23, "", "(1.584 ± 0.036) × $10^{-21}$"),
        (12345.6, 250.0, "Hz", "12346 ± 250 Hz"),
        (2.5e9, 1.2e6, "Hz", "2.5000 ± 0.0012 GHz"),
        (0.0, 0.0, "Hz", "0 Hz"),
        (2.5, 0.0, "", "2.5"),
    ],
)
def test_values_keep_their_digits(value: float, sd: float, unit: str, text: str) -> None:
    """Two digits of the standard deviation and all of the value that it leaves, in a unit that fits."""
    assert texts(np.array([value]), np.array([sd]), unit) == [text]


def test_one_unit_for_all_values() -> None:
    found = texts(np.array([9e-4, 3.2e-3]), np.array([1e-5, 2e-5]), "Hz")
    assert found == ["0.900 ± 0.010 mHz", "3.200 ± 0.020 mHz"]
    # The data's unit may have a prefix already.
    assert texts(np.array([3e-5]), np.array([1e-6]), "mV", prefixed=False) == [
        "(30.0 ± 1.0) × $10^{-6}$ mV"
    ]
    assert texts(np.array([3.0]), np.array([0.1]), "mV", prefixed=False) == ["3.00 ± 0.10 mV"]


@pytest.mark.parametrize(
    ("width", "unit", "factor", "prefix"),
    [
        (3e-5, "Hz", 1e6, "µHz"),
        (3e-21, "", 1e21, "$10^{-21}$"),
        (3e-21, "V", 1e21, "zV"),
        (3e-40, "", 1e42, "$10^{-42}$"),
        (3e-40, "V", 1e24, "yV"),
        (3.0, "", 1.0, ""),
        (3e4, "Hz", 1e-3, "kHz"),
        (0.0, "Hz", 1.0, "Hz"),
    ],
)
def test_scales(width: float, unit: str, factor: float, prefix: str) -> None:
    found = scale(width, unit)
    assert found == (pytest.approx(factor), prefix)
    assert quantity(31.7e-9, "Hz") == "31.7 nHz"
    assert quantity(999.7e-6, "Hz") == "1 mHz" and quantity(999.4e-6, "Hz") == "999 µHz"


@pytest.mark.parametrize(
    ("seconds", "title", "axis"),
    [
        (2.4e-4, "all 240 µs", "time [µs]"),
        (0.5, "all 0.5 s", "time [s]"),
        (999.8, "all 1,000 s", "time [s]"),
        (8.0e3, "all 8,000 s", "time [s]"),
        (3.6e4, "all 10 h", "time [h]"),
        (3.456e5, "all 4 d", "time [d]"),
    ],
)
def test_stretches_of_time_read_naturally(seconds: float, title: str, axis: str) -> None:
    """No exponents in the title, and round numbers of the same unit on the axis."""
    factor, unit = clock(seconds)
    assert axis == with_unit("time", unit)
    post = gaussian_posterior([1.0, 0.0, 0.0, 0.0], prior=None, short=False)
    dt = seconds / 512
    post.observation = Observation(Stream(post.observation.long.values, dt))
    ax = post.plot("data", band=(1e-3 / dt, 1e-2 / dt)).axes[0]
    assert ax.get_title(loc="left").endswith(title) and ax.get_xlabel() == axis
    labels = [label.get_text().replace("−", "-") for label in ax.get_xticklabels()]
    if factor != 1:
        np.testing.assert_allclose([float(x) for x in labels], factor * ax.get_xticks(), rtol=1e-9)
        assert max(len(x) for x in labels) <= 4


def test_small_numbers_have_one_unit_on_each_axis() -> None:
    """Microhertz and 1e-21: no offsets and no powers beside the axes; an epoch is named."""
    tones = TONES * (1e-21, 1.0, 1e-5)
    post = gaussian_posterior([0.0, 0.0, 0.0, 1.0], tones=tones, widths=[1e-23, 0.1, 1e-9])
    post.prior, post.noise_std = None, 1e-21
    values = model(torch.from_numpy(tones), Grid(512, 1e4)).numpy()
    post.observation = Observation(Stream(values, 1e4, unit="strain", t_ref=1e9))
    figure = post.plot()
    data, spectrum, _, amplitude, phase, _ = figure.axes
    assert data.get_ylabel() == "x(t) [$10^{-21}$ strain]"
    assert data.get_xlabel() == "time since t = 1000000000 s [d]"
    assert spectrum.get_ylabel() == "amplitude [$10^{-21}$ strain]"
    assert spectrum.get_xlabel().startswith("frequency [µHz]")
    assert amplitude.get_title(loc="left") == "Amplitude − median [$10^{-24}$ strain]"
    assert phase.get_title(loc="left").startswith("Phase at t_ref")
    assert "e-" not in words(figure) and "σ = 1.00 × 10⁻²¹ strain" in words(figure)
    for ax in (data, spectrum):
        assert all(len(t.get_text()) <= 5 for t in (*ax.get_xticklabels(), *ax.get_yticklabels()))
    label = words(plot_corner(post, 1))
    assert "$A_{1}$ [$10^{-24}$ strain]" in label or "$A_{1}$ [$10^{-21}$ strain]" in label


def test_components_of_a_small_unit(seed: int) -> None:
    """Strain of 1e-21 at 3 mHz: everything beside the rows and on the axes can be read."""
    from matplotlib.figure import Figure

    rng = np.random.default_rng(seed)
    truth = np.array([[1.6e-21, 1.0, 3.0004e-3], [0.6e-21, 2.0, 3.0016e-3]])
    draws = truth + (4e-23, 0.05, 4e-10) * rng.standard_normal((4000, 2, 3))
    figure = Figure()
    axes = list(figure.subplots(1, 3))
    draw_components(axes, View(gaussian(2), draws, np.ones(2), truth, (3e-3, 3.002e-3)))
    assert "[$10^{-24}$]" in axes[0].get_title() and "[pHz]" in axes[2].get_title()
    assert [t.get_text() for t in axes[0].get_yticklabels()] == [
        "1   3.000400 mHz",
        "2   3.001600 mHz",
    ]
    for ax, column, factor in ((axes[0], 0, 1e21), (axes[2], 2, 1e3)):
        for text, exact in zip(ax.texts, truth[:, column], strict=True):
            shown = float(re.match(r"\(?([\d.]+)", text.get_text())[1])  # type: ignore[index]
            spread = factor * (4e-23, 0.05, 4e-10)[column] / np.sqrt(4000)
            assert shown == pytest.approx(factor * exact, abs=8 * spread)


def test_fewer_components_than_the_truth() -> None:
    figure = plot_posterior(gaussian(1), TRUTH)
    spectrum, amplitude = figure.axes[1], figure.axes[3]
    assert sum(line.get_marker() == "x" for line in amplitude.get_lines()) == 1
    marks = [line for line in spectrum.get_lines() if line.get_marker() == "x"]
    assert len(marks[0].get_xdata()) == 3  # type: ignore[arg-type]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_files_are_reproducible(tmp_path: Path, suffix: str) -> None:
    for name in "ab":
        post = gaussian(1, short=False)
        save_figure(plot_posterior(post), tmp_path / f"{name}.{suffix}", dpi=40)
    a, b = ((tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert a[:4] in (b"\x89PNG", b"<?xm", b"%PDF")
    if suffix == "svg":  # clip paths are named after addresses in memory
        a, b = (re.sub(rb"\bp[0-9a-f]{10}\b", b"clip", x) for x in (a, b))
    assert a == b


def test_pyplot_and_global_style_are_left_alone(tmp_path: Path) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    had_pyplot = "matplotlib.pyplot" in sys.modules
    post = gaussian(1, short=False)
    save_figure(plot_posterior(post), tmp_path / "a.png", dpi=40)
    assert dict(matplotlib.rcParams) == before
    assert ("matplotlib.pyplot" in sys.modules) == had_pyplot


# --- the family ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("k", [0, 2])
def test_every_picture(tmp_path: Path, kind: str, k: int) -> None:
    figure = gaussian(k).plot(kind, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_bytes().startswith(b"<?xml")
    assert len(figure.axes) == 36 or (kind, k) != ("corner", 2)
    empty = "no component to show" in words(figure)
    assert empty == (k == 0 and kind in ("overview", "components", "corner", "correlation"))


class Drifting(Waveform):
    """A tone whose frequency drifts: one parameter more."""

    name = "drifting"
    parameters = (*Tone.parameters, Parameter("drift", "d", "Hz/s"))
    shape = ("frequency", "drift")

    def split(self, theta: Any, reference: float) -> tuple[Any, Any]:
        """Frequency and drift, (..., K, 2), and amplitudes at t = 0, (..., K, 1)."""
        c = self.of(theta, "amplitude") * np.exp(1j * self.of(theta, "phase"))
        return np.stack([self.of(theta, name) for name in self.shape], -1), c[..., None]

    def basis(self, t: Any, xi: Any) -> Any:
        """The function of time, (..., K, 1, N)."""
        f, d = xi[..., :1, None], xi[..., 1:, None]
        return np.exp(2j * np.pi * (f * t + d * t**2 / 2))


Drifting.__abstractmethods__ = frozenset()  # pictures ask for nothing else


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"residual"}))
def test_pictures_ask_the_waveform(kind: str) -> None:
    """A component with a fourth parameter: each picture shows it, in its unit, without being told."""
    post, tones = gaussian(2), np.insert(TONES[:2], 3, 1e-4, axis=1)
    post.waveform = Drifting()  # type: ignore[abstract]
    post.slots = GaussianSlots(tones, [0.05, 0.1, 0.002, 1e-6])
    post.k_probs = np.array([0.0, 0.0, 1.0])
    options = {} if kind in ("k", "correlation") else {"truth": tones}
    text = words(post.plot(kind, **options))
    assert ("Drift − median [µHz/s]" in text) == (kind in ("overview", "components"))
    assert ("$d_{2}$" in text) == (kind in ("corner", "correlation"))
    if kind == "components":
        assert len(post.plot(kind).axes) == 4


def test_unknown_pictures_and_options_are_refused() -> None:
    post = gaussian(1)
    with pytest.raises(ValueError, match=r"overview, data, spectrum, .* received 'pie'"):
        post.plot("pie")
    for bad in (0, 2, 1.5):
        with pytest.raises(ValueError, match=r"a component from 1 to 1, .* received"):
            post.plot("corner", component=bad)
    with pytest.raises(ValueError, match="amplitude, phase, frequency, received"):
        post.plot("corner", parameters=["colour"])


def test_upper_limit_in_the_spectrum() -> None:
    """Where K = 0 is likely, and only there."""
    quiet = gaussian_posterior([0.9, 0.1, 0.0, 0.0], present=0)
    ax = quiet.plot("spectrum").axes[0]
    lines = {str(line.get_label()): line for line in ax.get_lines()}
    (name,) = [label for label in lines if "upper limit" in label]
    assert name == "95 % upper limit of a tone, both streams"
    limit = quiet.upper_limit()
    assert limit is not None
    np.testing.assert_array_equal(lines[name].get_ydata(), limit.amplitude)
    assert "upper limit" not in words(gaussian(1).plot("spectrum"))


def overlap(one: Any, other: Any) -> bool:
    """Whether two rectangles on the canvas share a point."""
    return bool(one.x0 < other.x1 and other.x0 < one.x1 and one.y0 < other.y1 and other.y0 < one.y1)


@pytest.mark.parametrize(
    "f",
    [(2.60, 2.6024, 2.85), (2.60, 2.603, 2.606, 2.74, 2.86, 2.863), np.linspace(2.70, 2.72, 10)],
    ids=["pair", "triplet and pair", "ten in a heap"],
)
def test_names_of_components_do_not_collide(f: Any) -> None:
    """On the canvas, the numbers above the peaks touch neither one another nor any mark."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    k = len(f)
    tones = np.stack([np.linspace(0.9, 0.5, k), np.zeros(k), f], -1)
    post = gaussian_posterior(
        np.eye(k + 1)[k].tolist(), tones=tones, present=0, widths=[0.01, 0.1, 1e-5], prior=None
    )
    ax = post.plot("spectrum", truth=tones, band=(2.5, 3.0)).axes[0]
    canvas = FigureCanvasAgg(ax.figure)
    canvas.draw()
    names = [text for text in ax.texts if text.get_text()]
    assert [text.get_text() for text in names] == [str(j + 1) for j in range(k)]
    # Without the line to the peak, which Annotation.get_window_extent would count as well.
    boxes = [Text.get_window_extent(text, canvas.get_renderer()) for text in names]
    for i, box in enumerate(boxes):
        assert not any(overlap(box, other) for other in boxes[:i]), i
        assert box.y1 <= ax.bbox.y1 and box.y0 >= ax.bbox.y0
        for amplitude, _, frequency in tones:
            x, y = ax.transData.transform((frequency, amplitude))
            assert not (box.x0 < x < box.x1 and box.y0 < y < box.y1)


def test_no_two_components_share_a_colour() -> None:
    colours = [colour_of(j) for j in range(200)]
    assert len(set(colours)) == 200 and tuple(colours[:6]) == COLOURS
    shown = [
        label.get_color() for label in gaussian(3).plot("components").axes[0].get_yticklabels()
    ]
    assert len(set(shown)) == 3


def test_coloured_text_can_be_read() -> None:
    """Numbers in a component's colour have the contrast that the guidelines ask of small text; the colours have not."""
    assert (
        contrast("#000000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#777777") == 1
    )
    assert contrast("#767676", "#ffffff") == pytest.approx(
        4.54, abs=0.01
    )  # the guidelines' own example
    assert min(contrast(text_colour(colour_of(j)), GROUND) for j in range(200)) >= 4.5
    assert min(contrast(colour, GROUND) for colour in COLOURS) < 2.5
    assert text_colour("#332288") == "#332288"  # dark enough already


@pytest.mark.parametrize(
    ("t_ref", "note", "label"),
    [
        (2459000.5 * 86400, "", "time since t = 2459000.5 d [d]"),
        (1e9, "", "time since t = 1000000000 s [d]"),
        (1e9, "2001-09-09T01:46:40 UTC", "time since 2001-09-09 01:46:40 UTC [d]"),
        (0.0, "", "time [d]"),
    ],
)
def test_the_axis_of_time_names_its_origin(t_ref: float, note: str, label: str) -> None:
    """As a date where the reader found dates, otherwise in the unit that needs fewer digits."""
    post = gaussian_posterior([1.0, 0.0, 0.0, 0.0], prior=None, short=False)
    notes = (f"phases refer to t_ref = {t_ref!r} s ({note})",) if note else ()
    post.observation = Observation(
        Stream(post.observation.long.values, 2e3, t_ref=t_ref, notes=notes)
    )
    assert post.plot("data", band=(1e-5, 1e-4)).axes[0].get_xlabel() == label


def test_existence_is_told_where_it_is_in_doubt() -> None:
    post = gaussian_posterior([0.0, 0.1, 0.25, 0.65])
    labels = [t.get_text() for t in post.plot("components").axes[0].get_yticklabels()]
    assert "probability" not in labels[0]
    assert "probability 0.90" in labels[1] and "probability 0.65" in labels[2]


def corner_means(figure: Any) -> list[float]:
    """Mean of each histogram on the diagonal of a corner plot of one posterior."""
    size = int(np.sqrt(len(figure.axes)))
    means = []
    for i in range(size):
        x, y = figure.axes[i * size + i].patches[0].get_xy()[:-1].T
        means.append(float(np.average(x, weights=y + 1e-12)))
    return means


def test_corner_shows_the_parameters(seed: int) -> None:
    post = gaussian(3)
    figure = plot_corner(post, 2, truth=TRUTH)
    assert len(figure.axes) == 9 and "truth" in words(figure)
    means = corner_means(figure)
    assert means[0] == pytest.approx(TRUTH[1, 0], abs=0.02)
    assert means[1] == pytest.approx(TRUTH[1, 1], abs=0.05)  # within 0 to 2π, as in the tables
    assert "Hz" in words(figure) and "$f_{2}$" in words(figure)
    assert len(plot_corner(post, parameters=["frequency"]).axes) == 9
    assert len(plot_corner(post, k=2, parameters=["amplitude"]).axes) == 4


def test_corner_of_two_methods_matches_their_components(seed: int) -> None:
    """The second lists its components in another order; drawn over each other they agree."""
    one = gaussian(3)
    other = gaussian_posterior([0.0, 0.0, 0.0, 1.0], method="a sampler")
    other.slots = Draws(3, {3: shuffled(one.sample(2000, 3, seed), seed)}, {3: np.ones(2000)})
    figure = plot_corner(one, other=other, parameters=["amplitude"])
    assert {"gaussian", "a sampler"} <= set(words(figure).splitlines())
    for i in range(3):
        patches = figure.axes[4 * i].patches
        assert len(patches) == 2
        peaks = [p.get_xy()[:-1][p.get_xy()[:-1, 1].argmax(), 0] for p in patches]
        assert abs(peaks[0] - peaks[1]) < 0.1
    with pytest.raises(ValueError, match="was visited, one of 3, received 1"):
        plot_corner(gaussian(1), other=other)


def test_corner_of_many_components_shows_frequencies() -> None:
    tones = np.stack([np.ones(5), np.zeros(5), np.linspace(2.55, 2.95, 5)], -1)
    post = gaussian_posterior([0.0] * 5 + [1.0], tones=tones, widths=[0.05, 0.1, 1e-4], prior=None)
    figure = plot_corner(post)
    assert len(figure.axes) == 25 and r"\phi" not in words(figure)


def test_residual_of_a_good_and_a_bad_fit() -> None:
    """Three tones explain the data; one leaves peaks above the line that noise hardly reaches."""
    heights = []
    for k in (3, 1):
        figure = gaussian_posterior(
            np.eye(4)[k].tolist(), present=3, widths=[0.005, 0.005, 1e-4]
        ).plot("residual")
        assert len(figure.axes) == 3 and "95 % of white noise" in words(figure)
        lines = {str(line.get_label()): line for line in figure.axes[-1].get_lines()}
        line = next(v for name, v in lines.items() if "highest peak" in name)
        heights.append(np.max(lines["residual"].get_ydata()) / line.get_ydata()[0])
    assert heights[0] < 1 < heights[1]


def test_residual_of_a_long_series_is_drawn_in_pieces() -> None:
    post = gaussian_posterior([1.0, 0.0, 0.0, 0.0])
    values = 0.3 * np.random.default_rng(0).standard_normal(20_000)
    post.observation = Observation(Stream(values, 0.1))
    figure = post.plot("residual")
    assert len(figure.axes) == 2 and len(figure.axes[0].collections) == 1
    assert "rms 1.0" in words(figure) or "rms 0.99" in words(figure)


def test_correlation_matrix() -> None:
    post = gaussian(3)
    figure = post.plot("correlation")
    np.testing.assert_array_equal(figure.axes[0].get_images()[0].get_array(), post.correlation())
    labels = [t.get_text() for t in figure.axes[0].get_xticklabels()]
    assert labels[:4] == ["$A_{1}$", r"$\phi_{1}$", "$f_{1}$", "$A_{2}$"]


def test_many_values_of_k_are_cut_to_those_that_matter() -> None:
    tones = np.tile(TRUTH[:1], (60, 1))
    post = gaussian_posterior(np.eye(61)[30].tolist(), tones=tones, present=0)
    ax = post.plot("k").axes[0]
    assert len(ax.patches) == 7 and ax.get_xlim()[0] > 20
    post = gaussian_posterior(np.eye(19)[17].tolist(), tones=tones[:18], present=0)
    ticks = post.plot("k").axes[0].get_xticks()
    assert 17 in ticks and len(ticks) < 12  # the most probable one is named, and names keep apart


def test_names_of_many_components_keep_apart() -> None:
    """In rows at the top of the spectrum, each above its component; of a few, at the peaks."""
    f = np.sort(np.random.default_rng(3).uniform(2.52, 2.98, 40))
    tones = np.stack([np.linspace(0.3, 1, 40), np.zeros(40), f], -1)
    post = gaussian_posterior(
        np.eye(41)[40].tolist(), tones=tones, present=0, widths=[0.01, 0.1, 1e-6]
    )
    ax = post.plot("spectrum", band=(2.5, 3.0)).axes[0]
    rows: dict[float, list[float]] = {}
    for text, frequency in zip(ax.texts, f, strict=True):
        assert text.xy == (pytest.approx(frequency, abs=1e-5), 1)
        rows.setdefault(text.get_position()[1], []).append(text.xy[0])
    assert 1 < len(rows) < 12
    assert all(np.diff(row).min(initial=1) > 0.035 * 0.4999 for row in rows.values())
    assert all(text.xy[1] != 1 for text in gaussian(3).plot("spectrum").axes[0].texts)


def test_of_many_components_the_strongest_have_rows() -> None:
    k, rng = 31, np.random.default_rng(0)
    places = np.linspace(1.0, 4.0, k)
    size = 1.0 + rng.permutation(k)
    wide = np.geomspace(1e-7, 1e-3, k)  # widths that no common scale can show
    noise = rng.standard_normal((3, 200, k))
    theta = np.stack([size + 0.01 * noise[0], 3 + 0.1 * noise[1], places + wide * noise[2]], -1)
    data = Observation.from_arrays(rng.normal(size=400), 0.1)
    post = Posterior(
        np.eye(k + 1)[k], Draws(k, {k: theta}, {k: np.ones(200)}), data, 1.0, None, "x"
    )
    figure = plot_posterior(post)
    amplitude, phase, frequency = figure.axes[-3:]
    assert "the 20 strongest of 31 components; 11 are left out" in amplitude.get_xlabel()
    rows = [label.get_text().split()[0] for label in amplitude.get_yticklabels()]
    assert rows == [str(j + 1) for j in np.flatnonzero(size > k - 20)]
    assert "each in its sd" in frequency.get_title("left")
    assert "mrad" in phase.get_title("left")
    for line in frequency.lines[::2]:  # the 5 to 95 % intervals
        assert np.ptp(line.get_xdata()) == pytest.approx(3.29, rel=0.25)
    one = Draws(21, {21: theta[:, :21]}, {21: np.ones(200)})
    figure = plot_posterior(Posterior(np.eye(22)[21], one, data, 1.0, None, "x"))
    assert "of 21 components; 1 is left out" in figure.axes[-3].get_xlabel()
    few = Draws(3, {3: theta[:, :3]}, {3: np.ones(200)})
    picture = plot_posterior(Posterior(np.eye(4)[3], few, data, 1.0, None, "x"))
    assert "left out" not in words(picture) and "each in its sd" not in words(picture)


@pytest.mark.parametrize(
    ("symbol", "text"),
    [("φ", r"$\phi_{2}$"), ("A_B", r"$A_{\mathrm{B}, 2}$"), ("A_a_$1", r"$A_{\mathrm{a  1}, 2}$")],
)
def test_symbols_of_channels_can_be_drawn(symbol: str, text: str) -> None:
    from matplotlib.mathtext import MathTextParser

    found = symbol_of(Parameter("x", symbol, ""), 1)
    assert found == text
    MathTextParser("path").parse(found)


def test_a_few_values_of_k_do_not_fill_the_panel() -> None:
    post = gaussian_posterior([0.9, 0.1], tones=TRUTH[:1], present=0)
    low, high = post.plot("k").axes[0].get_xlim()
    assert low < 0 and high > 5


def test_unknown_suffix_is_refused(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    with pytest.raises(ValueError, match=r"\.png \.svg \.pdf, received '\.gif'"):
        save_figure(Figure(), tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


# --- Training ------------------------------------------------------------------------------------


def metrics(path: Path, noise: bool = True, tail: str = "") -> Path:
    """A short course of training."""
    lines = []
    for step in range(0, 100, 10):
        record = {"step": step, "split": "train", "loss": 2.0, "ce": 1.0, "flow": 1.0, "lr": 1e-3}
        record |= {"signals_per_second": 1e3}
        record |= {"noise": 0.1} if noise else {}
        lines.append(record)
        if step % 50 == 0:
            lines.append({"step": step, "split": "val", "loss": 1.9, "k_accuracy": 0.5})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + tail, encoding="utf-8")
    return path


def test_training(tmp_path: Path) -> None:
    figure = plot_training(metrics(tmp_path / "metrics.jsonl"))
    loss, terms, accuracy = figure.axes[:3]
    assert [len(line.get_xdata()) for line in loss.get_lines()] == [10, 2]  # type: ignore[arg-type]
    assert len(terms.get_lines()) == 3
    assert len(accuracy.get_lines()) == 1
    save_figure(figure, tmp_path / "training.png", dpi=40)


def test_training_has_plain_numbers_and_shows_the_errors(tmp_path: Path) -> None:
    """A loss that falls by a factor of 30 has ticks like 0.5 and 10; the share of wrong counts is on decades."""
    path = tmp_path / "metrics.jsonl"
    records = [
        {"step": i, "split": "val", "loss": 30 * 0.7**i, "k_accuracy": 1 - 0.5**i}
        for i in range(11)
    ]
    path.write_text(
        "".join(json.dumps(r) + "\n" for r in records)
        + '{"step": 11, "split": "val", "k_accuracy": 1.0}\n'
    )
    figure = plot_training(path)
    save_figure(figure, tmp_path / "training.png", dpi=40)
    loss, _, errors = figure.axes[:3]
    for ax in (loss, errors):
        assert ax.get_yscale() == "log"
        low, high = ax.get_ylim()
        ticks = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
        labels = [text.get_text() for tick, text in ticks if low <= tick <= high]
        assert len(labels) >= 3 and not any("10^" in label or "times" in label for label in labels)
        assert all(np.isclose(float(label), float(f"{float(label):g}")) for label in labels)
        assert not any(text.get_text() for text in ax.get_yticklabels(minor=True))
    assert errors.get_title(loc="left") == "Share of signals with a wrong K"
    np.testing.assert_allclose(errors.get_lines()[0].get_ydata()[:11], 0.5 ** np.arange(11))


def test_training_without_some_terms_or_with_a_cut_last_line(tmp_path: Path) -> None:
    figure = plot_training(metrics(tmp_path / "a.jsonl", noise=False, tail='{"step": 1'))
    assert len(figure.axes[1].get_lines()) == 2
    (tmp_path / "b.jsonl").write_text('{"step": 1, "split": "train", "loss": NaN}\n')
    assert "not recorded" in words(plot_training(tmp_path / "b.jsonl"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file"),
        ("", "holds no records yet"),
        ("nonsense\n{}\n", "line 1: expected a JSON object"),
        ("[1]\n", "line 1: expected a JSON object with a 'step'"),
    ],
)
def test_bad_metrics(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "metrics.jsonl"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=message):
        plot_training(path)


def test_inverse_units_have_powers_instead_of_prefixes() -> None:
    """Rates of a thousandth per second are no "m1/s"."""
    assert scale(2e-3, "1/s") == (1e3, "10⁻³/s")
    assert scale(2.0, "1/s") == (1.0, "1/s")
    values, sds = np.array([3.58e-3, 7.75e-3]), np.array([5.9e-4, 7.9e-4])
    assert texts(values, sds, "1/s")[0] == "(3.58 ± 0.59) × 10⁻³/s"


def test_labels_of_places_have_no_endless_decimals() -> None:
    """Quantiles of equal draws differ by rounding."""
    assert [_decimals(width, 48.1) for width in (0.03, 7e-15, 0.0)] == [1, 4, 4]
