"""The pictures of docs/posterior.md and docs/quickstart.md: `python docs/gallery.py` writes them to docs/images/.

The picture of the report is a photograph by Chromium and is left as it is where there is none.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from slotflow import Observation, Posterior, SlotFlow, Stream
from slotflow.plots import save_figure
from slotflow.signal.model import noise_free

__all__ = ["main", "noise", "photograph", "tones", "walk"]

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
DPI = 70
SIGMA = 0.5
SEED = 6
"""Of noise that puts the truth well within the posterior: the joint p-value of all nine parameters is 0.88."""
TONES = np.array([[0.9, 1.0, 2.6000], [0.7, 2.5, 2.6024], [0.042, 4.0, 2.8500]])
"""(A, φ, f): a pair 0.72 bins apart, and a tone at the edge of what can be seen."""


def answer(theta: np.ndarray, smallest: float) -> Posterior:
    """The exact posterior of tones in noise, amplitudes from `smallest` on and any separation allowed."""
    model = SlotFlow.from_pretrained()
    prior = replace(model.config.prior, min_separation=0.0, k_max=5, amplitude=(smallest, 1.5))
    rng = np.random.default_rng(SEED)
    grids = [grid for grid in (model.config.long, model.config.short) if grid is not None]
    streams = [
        Stream(noise_free(theta, grid) + SIGMA * rng.standard_normal(grid.n), grid.dt, grid.t0)
        for grid in grids
    ]
    return model.infer(Observation(*streams), prior=prior, max_seconds=120)


def tones() -> Posterior:
    """The answer to data with tones."""
    return answer(TONES, 0.02)


def noise() -> Posterior:
    """The answer to noise alone."""
    return answer(TONES[:0], 0.2)


def photograph(post: Posterior) -> None:
    """Writes the top of the report, as a browser shows it."""
    sys.path.insert(0, str(ROOT / "tests"))
    from browser_helpers import CHROMIUM, open_page

    if CHROMIUM is None:
        print("no browser found: images/report.png stays as it is")
        return
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        post.report(page, source="tones.npz")
        with open_page(page, 800, 1240) as shown:
            shown.screenshot(IMAGES / "report.png", whole=False)


def walk() -> None:
    """Writes the picture of the quick start, from its own commands: those that make the data and the result."""
    page = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    blocks = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
    wanted = [b for b in blocks if 'savetxt("voltage.csv"' in b or "--plot" in b]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with tempfile.TemporaryDirectory() as folder:
        for block in wanted[:2]:
            subprocess.run(
                ["bash", "-e", "-c", block], cwd=folder, env=os.environ | {"PATH": path}, check=True
            )
        shutil.copy(Path(folder) / "result" / "posterior.png", IMAGES / "quickstart.png")


def main() -> None:
    """Writes the pictures."""
    walk()
    post, quiet = tones(), noise()
    print(post, post.verdict, post.summary().iloc[:, 1:3], sep="\n")
    print(quiet, quiet.verdict, sep="\n")
    pictures = {
        "overview": post.plot(truth=TONES),
        "corner": post.plot(
            "corner", k=2, other=post.amortized, parameters=["amplitude", "frequency"]
        ),
        "residual": post.plot("residual"),
        "correlation": post.plot("correlation", k=2),
        "upper-limit": quiet.plot("spectrum"),
    }
    for name, figure in pictures.items():
        save_figure(figure, IMAGES / f"posterior-{name}.png", dpi=DPI)
    photograph(post)


if __name__ == "__main__":
    main()
