"""Diagrams as SVG, drawn without a library: the network `zoom` and the exact step, boxes in the order of the data."""

from __future__ import annotations

from html import escape

__all__ = ["draw_exact", "draw_zoom"]

WIDTH = 960
BLUE, ORANGE, GREEN, GREY = "#dcebf5", "#fbe6d6", "#d8f0e7", "#f0f0f0"
EDGES = {BLUE: "#0072B2", ORANGE: "#D55E00", GREEN: "#009E73", GREY: "#8c8c8c"}


def draw_zoom() -> str:
    """The network, from the channels and the prior to q(K | x) and the slots."""
    parts = [
        box(20, 20, 280, 74, GREY, "Long stream", "N samples, even step; T = N·dt"),
        box(340, 20, 280, 74, GREY, "Short stream (optional)", "its own length, step and noise"),
        box(660, 20, 280, 74, GREY, "Prior", "band, bounds of A,", "minimum separation, p(K)"),
        box(
            20, 140, 920, 76, BLUE, "Spectrum of the band, dimensionless (zoom/spectrum.py)",
            "190 bins of 1/T at half-bin steps, phase at mid-time, amplitude over the prior's largest;",
            "σ from outside the band; the short stream at every 10th bin; 11 numbers for prior and noise",
        ),
        box(
            20, 262, 920, 76, BLUE, "Encoder (zoom/encoder.py)",
            "convolutions to 95 tokens of two bins, 19 tokens of the short stream,",
            "6 blocks of convolution and attention, width 192; no pooling on the way to the slots",
        ),
        box(20, 384, 280, 92, BLUE, "Heat map (zoom/proposals.py)", "two places per bin, taken in the",
            "order of their probabilities"),
        box(660, 384, 280, 92, GREEN, "First count q₁(K)", "from pooled tokens;", "as many slots as its maximum"),
        box(
            20, 522, 600, 112, ORANGE, "K slots at f_k with amplitude c_k (zoom/slots.py)",
            "2 rounds: window around f_k, the other slots subtracted, in the frame of c_k;",
            "short stream's residual; attention among slots; f_k and c_k move",
            "2 joint Gauss–Newton steps over all slots and streams; one last look",
        ),
        box(20, 684, 600, 86, ORANGE, "Flow in units of the bound (zoom/bound.py)",
            "(f, Re c, Im c) whitened by the joint covariance, a full affine layer,",
            "splines and couplings; restricted to the prior's bounds"),
        box(660, 684, 280, 86, GREEN, "Second count q(K | x)", "the first, corrected by slots,",
            "misfit and conditions"),
        arrow(160, 94, 160, 140), arrow(480, 94, 480, 140), arrow(800, 94, 800, 140),
        arrow(480, 216, 480, 262), arrow(160, 338, 160, 384), arrow(800, 338, 800, 384),
        arrow(160, 476, 160, 522), label(170, 503, "starts"),
        arrow(480, 338, 480, 522), label(490, 435, "tokens at f_k"),
        path("M 800 476 L 800 560 L 620 560"), label(650, 552, "K"),
        arrow(320, 634, 320, 684), label(330, 663, "centre, covariance, context of each slot"),
        path("M 620 605 L 800 605 L 800 684"), label(650, 597, "contexts, misfit"),
    ]  # fmt: skip
    return document(
        790, "Preset zoom: from the streams and the prior to q(K | x) and the slots", parts
    )


def draw_exact() -> str:
    """The exact step, from the network's answer to p(K, Θ, σ | x) and the verdict."""
    parts = [
        box(20, 20, 440, 74, GREEN, "The network's answer",
            "q(K | x), and a place for each component,", "in milliseconds"),
        box(500, 20, 440, 74, GREY, "Data and prior",
            "channels as Gram matrices and matched filters;", "bounds of A, f, σ; p(K)"),
        box(20, 140, 920, 76, BLUE, "1. Climb: the joint maximum of the likelihood for this K (signal/fit.py)",
            "damped Gauss–Newton on all components and channels together;",
            "σ is integrated out, so that the residual sum of squares alone decides"),
        box(20, 262, 920, 96, BLUE, "2. Propose: a density that can be drawn from (exact/proposals/)",
            "frequencies from a Gaussian at the maximum, amplitudes from their exact conditional given "
            "the frequencies;",
            "an undetected tone anywhere in the band; a tone split in two; mixed by what each is worth"),
        box(20, 404, 920, 76, BLUE, "3. Weigh: posterior over proposal, draw by draw (exact/importance.py)",
            "the mean weight is the evidence Z_K with its error; the spread of the weights is the "
            "effective sample size;",
            "where the weights cannot be trusted, tempered sampling starts from the same proposal"),
        box(20, 526, 440, 96, ORANGE, "4. Across K (exact/search.py)",
            "K − 1 and K + 1, and on, as long as they matter;",
            "p(K | x) ∝ p(K) Z_K;", "others are excluded by a bound"),
        box(500, 526, 440, 96, ORANGE, "5. Judge (posterior/verdict.py)", "is what the best fit leaves white noise?",
            "are enough draws effective?", "was every K that matters looked at?"),
        box(20, 668, 920, 54, GREEN,
            "p(K, Θ, σ | x): joint draws, ln Z_K, effective share;  exact, approximate or misfit, and why"),
        arrow(240, 94, 240, 140), arrow(720, 94, 720, 140), arrow(480, 216, 480, 262), arrow(480, 358, 480, 404),
        arrow(240, 480, 240, 526), arrow(720, 480, 720, 526), arrow(240, 622, 240, 668), arrow(720, 622, 720, 668),
        path("M 20 574 L 8 574 L 8 178 L 20 178"), label(26, 252, "the next K starts from the fit of this one"),
    ]  # fmt: skip
    return document(
        742, "The exact step: from the network's answer to the posterior and its verdict", parts
    )


def document(height: int, title: str, parts: list[str]) -> str:
    """An SVG document of given height with boxes and arrows."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="14">\n'
        f"<title>{escape(title)}</title>\n"
        '<defs><marker id="tip" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
        '<path d="M 0 0 L 9 4 L 0 8 z" fill="#555"/></marker></defs>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>\n{body}\n</svg>\n'
    )


def box(x: int, y: int, width: int, height: int, colour: str, title: str, *lines: str) -> str:
    """A box with a bold title and lines below it, centred."""
    middle, step = x + width / 2, 20
    first = y + (height - step * len(lines)) / 2 + 5
    text = [
        f'<text x="{middle}" y="{first}" text-anchor="middle" font-weight="bold">{escape(title)}</text>'
    ]
    for i, line in enumerate(lines, 1):
        text.append(
            f'<text x="{middle}" y="{first + step * i}" text-anchor="middle">{escape(line)}</text>'
        )
    edge = EDGES[colour]
    frame = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" fill="{colour}" stroke="{edge}"/>'
    return "\n".join([frame, *text])


def arrow(x: int, y: int, x2: int, y2: int) -> str:
    """A straight arrow."""
    return path(f"M {x} {y} L {x2} {y2}")


def path(way: str) -> str:
    """An arrow along a way."""
    return f'<path d="{way}" fill="none" stroke="#555" stroke-width="1.6" marker-end="url(#tip)"/>'


def label(x: int, y: int, text: str) -> str:
    """A small text beside an arrow."""
    return f'<text x="{x}" y="{y}" font-size="12" fill="#444">{escape(text)}</text>'
