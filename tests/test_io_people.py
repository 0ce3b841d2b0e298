"""Files as people have them: light curves, MATLAB, detector strain, complex samples, calendars, and odd suffixes."""

from __future__ import annotations

import sys
import time
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from io_helpers import Write, read_stream
from scipy.io import savemat, wavfile

from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.preprocess import describe
from slotflow.data.read.files import read_observation, read_observations
from slotflow.data.read.formats import matlab
from slotflow.data.read.marks import marks_in_text, without_marks
from slotflow.data.read.names import complex_pair, errors_of, obvious_series
from slotflow.data.read.timeline import timeline_of
from slotflow.data.read.timestamps import Stamps

DAY, YEAR = 86400.0, 31557600.0
X = np.random.default_rng(14).normal(size=60)
E = np.random.default_rng(15).uniform(0.5, 2.0, 60)


def said(channel: Channel, words: str) -> bool:
    """Whether a note of a channel holds some words."""
    return any(words in note for note in channel.notes)


# --- FITS -----------------------------------------------------------------------------------------


def write_light_curve(path: Path, first: int = 0, empty: bool = False, n: int = 60) -> None:
    """A light curve as TESS's archive writes it: flags, NaN, a reference, an image behind it."""
    fits = pytest.importorskip("astropy.io.fits")
    days = 1683.0 + (first + np.arange(n)) / 720
    days[7] = np.nan
    flux = 1000 + X[:n]
    flux[[3, 20]] = np.nan
    quality = np.zeros(n, np.int32)
    quality[[20, 30]] = 128
    columns = [
        fits.Column("TIME", "D", "BJD - 2457000, days", array=days),
        fits.Column("TIMECORR", "E", "d", array=np.zeros(n)),
        fits.Column("CADENCENO", "J", array=np.arange(n)),
        fits.Column("SAP_FLUX", "E", "e-/s", array=flux + 5),
        fits.Column("SAP_FLUX_ERR", "E", "e-/s", array=2 * E[:n]),
        fits.Column("PDCSAP_FLUX", "E", "e-/s", array=flux * np.nan if empty else flux),
        fits.Column("PDCSAP_FLUX_ERR", "E", "e-/s", array=E[:n]),
        fits.Column("QUALITY", "J", array=quality),
    ]
    table = fits.BinTableHDU.from_columns(columns, name="LIGHTCURVE")
    table.header.update(BJDREFI=2457000, BJDREFF=0.0, TIMEUNIT="d", TIMESYS="TDB")
    primary = fits.PrimaryHDU()
    primary.header.update(OBJECT="TIC 1", SECTOR=12)
    fits.HDUList([primary, table, fits.ImageHDU(np.zeros((11, 11)))]).writeto(path)


def test_light_curves(tmp_path: Path) -> None:
    write_light_curve(tmp_path / "a_lc.fits")
    found = read_stream(tmp_path / "a_lc.fits")
    kept = np.delete(np.arange(60), [3, 7, 20, 30])
    np.testing.assert_allclose(found.values, (1000 + X[kept]).astype(np.float32))
    np.testing.assert_allclose(found.errors, E[kept].astype(np.float32))  # type: ignore[arg-type]
    np.testing.assert_allclose(found.times + found.t_ref, DAY * (1683 + kept / 720), rtol=1e-12)
    assert (found.unit, found.time_unit) == ("e-/s", "d")
    for words in (
        "BJD (TDB) less 2457000 in days",
        "object TIC 1, sector 12",
        "2 of 60 samples have a flag in 'QUALITY'",
        "'PDCSAP_FLUX' chosen",
        "errors 'PDCSAP_FLUX_ERR'",
    ):
        assert said(found, words), (words, found.notes)
    assert read_stream(tmp_path / "a_lc.fits", errors="none").errors is None
    raw = read_stream(tmp_path / "a_lc.fits", column="SAP_FLUX")
    np.testing.assert_allclose(raw.values, (1005 + X[kept]).astype(np.float32))
    (tmp_path / "a_lc.fits").rename(tmp_path / "download")  # by its first bytes
    assert read_stream(tmp_path / "download").n == 56


def test_light_curves_without_corrected_brightness(tmp_path: Path) -> None:
    write_light_curve(tmp_path / "a.fits", empty=True)
    found = read_stream(tmp_path / "a.fits")
    assert found.values.mean() == pytest.approx(1005, abs=0.5)
    assert said(found, "'PDCSAP_FLUX' holds no numbers") and said(found, "errors 'SAP_FLUX_ERR'")


def test_fits_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fits = pytest.importorskip("astropy.io.fits")
    write_light_curve(tmp_path / "a.fits")
    raw = (tmp_path / "a.fits").read_bytes()
    fits.PrimaryHDU(np.zeros((5, 5))).writeto(tmp_path / "image.fits")
    (tmp_path / "cut.fits").write_bytes(raw[:5000])
    huge = raw.replace(b"NAXIS2  =                   60", b"NAXIS2  =         600000000000")
    (tmp_path / "huge.fits").write_bytes(huge)
    start = time.monotonic()
    for name, words in (("image", "only images"), ("cut", "damaged"), ("huge", "damaged")):
        with pytest.raises(ValueError, match=words):
            read_stream(tmp_path / f"{name}.fits")
    assert time.monotonic() - start < 2
    monkeypatch.setitem(sys.modules, "astropy.io.fits", None)
    with pytest.raises(ValueError, match=r"a\.fits: .*pip install 'slotflow\[astro\]'"):
        read_stream(tmp_path / "a.fits")


# --- MATLAB ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [False, True])
def test_matlab(tmp_path: Path, packed: bool) -> None:
    t = 0.25 * np.arange(60)
    content = {"x": X[:, None], "fs": 4.0, "name": "words", "cells": np.array([1, "a"], object)}
    savemat(tmp_path / "a.mat", content, do_compression=packed)
    found = read_stream(tmp_path / "a.mat")
    np.testing.assert_array_equal(found.values, X)
    assert found.dt == 0.25
    record = {"volts": X[None, :], "time": t[:, None], "volts_err": E}
    savemat(tmp_path / "b.mat", {"run": record}, do_compression=packed)
    found = read_stream(tmp_path / "b.mat")
    np.testing.assert_array_equal(found.values, X)
    np.testing.assert_array_equal(found.errors, E)  # type: ignore[arg-type]
    assert found.dt == 0.25
    savemat(tmp_path / "c.mat", {"z": X + 1j * E}, do_compression=packed)
    np.testing.assert_array_equal(read_stream(tmp_path / "c.mat", 1.0).values, X + 1j * E)
    savemat(tmp_path / "d.mat", {"words": "none"}, do_compression=packed)
    with pytest.raises(ValueError, match="arrays of numbers, received none"):
        read_stream(tmp_path / "d.mat", 1.0)


def test_the_array_that_fits_the_time_stamps(tmp_path: Path) -> None:
    """As in the test series of a package for tides: the heights, their times, and a fit beside them."""
    fit = {"A": X[:9], "g": X[:9], "name": np.array(["M2", "S2"])}
    savemat(tmp_path / "a.mat", {"h": X, "t": np.arange(60.0), "coef": fit})
    found = read_stream(tmp_path / "a.mat")
    np.testing.assert_array_equal(found.values, X)
    assert said(found, "array 'h' chosen (others: 'coef/A', 'coef/g')")


def test_matlab_of_version_4(tmp_path: Path) -> None:
    savemat(tmp_path / "a.mat", {"x": X, "dt": 0.5}, format="4")
    assert read_stream(tmp_path / "a.mat").dt == 0.5


def test_matlab_of_version_7_3(tmp_path: Path) -> None:
    """HDF5 behind 512 bytes of MATLAB's own, arrays column by column, complex numbers as records."""
    path = tmp_path / "a.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        z = np.zeros((1, 60), dtype=[("real", "f8"), ("imag", "f8")])
        z["real"], z["imag"] = X, E
        for name, values, kind in (
            ("z", z, "double"),
            ("dt", np.full((1, 1), 0.5), "double"),
            ("label", np.zeros((5, 1), np.uint16), "char"),
            ("both", np.stack([np.arange(60.0), X]), "double"),
        ):
            file[name] = values
            file[name].attrs["MATLAB_class"] = np.bytes_(kind)
        file["#refs#/a"] = np.arange(60.0)
    raw = bytearray(path.read_bytes())
    raw[:19] = b"MATLAB 7.3 MAT-file"
    path.write_bytes(raw)
    found = read_stream(path, dataset="z")
    np.testing.assert_array_equal(found.values, X + 1j * E)
    assert found.dt == 0.5 and found.is_complex


def test_hostile_matlab_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes and numbers of parts are checked before scipy believes them."""
    monkeypatch.setattr(matlab, "MOST_NUMBERS_OF_SMALL_FILES", 2**20)
    header = b"MATLAB 5.0 MAT-file".ljust(124) + (256).to_bytes(2, "little") + b"IM"

    def element(kind: int, content: bytes) -> bytes:
        padded = content + bytes(-len(content) % 8)
        return kind.to_bytes(4, "little") + len(content).to_bytes(4, "little") + padded

    def cells(count: int) -> bytes:
        flags = element(6, (1).to_bytes(4, "little") + bytes(4))
        shape = element(5, count.to_bytes(4, "little") + (1).to_bytes(4, "little"))
        return element(14, flags + shape + element(1, b"x"))

    bomb = zlib.compressobj(9)
    zeros = bomb.compress(bytes(2**24)) + bomb.flush()
    tag = (15).to_bytes(4, "little")
    packed = zlib.compress(cells(2**31 - 1))
    for name, content, words in (
        ("a", cells(2**31 - 1), "parts in an array of"),
        ("b", tag + len(zeros).to_bytes(4, "little") + zeros, "unpacks to more than"),
        ("c", tag + len(packed).to_bytes(4, "little") + packed, "parts in an array of"),
    ):
        (tmp_path / f"{name}.mat").write_bytes(header + content)
        start = time.monotonic()
        with pytest.raises(ValueError, match=words):
            read_stream(tmp_path / f"{name}.mat", 1.0)
        assert time.monotonic() - start < 5


# --- Detector strain ------------------------------------------------------------------------------


def test_detector_strain(tmp_path: Path) -> None:
    """As the open science centre writes it: the data set need not be named."""
    with h5py.File(tmp_path / "H-H1_LOSC_4_V2-1126259446-32.hdf5", "w") as file:
        file["strain/Strain"] = 1e-21 * X
        file["strain/Strain"].attrs.update(Npoints=60, Xspacing=1 / 4096, Xstart=1126259446)
        file["quality/simple/DQmask"] = np.full(32, 127)
        file["quality/simple/DQDescriptions"] = np.array([b"data", b"cbc"])
        file["quality/injections/Injmask"] = np.full(32, 31)
        file["meta/GPSstart"] = 1126259446
    found = read_stream(tmp_path / "H-H1_LOSC_4_V2-1126259446-32.hdf5")
    np.testing.assert_array_equal(found.values, 1e-21 * X)
    assert (found.dt, found.t_ref) == (1 / 4096, 1126259446.0)
    assert said(found, "'strain/Strain' chosen")


# --- Complex samples ------------------------------------------------------------------------------


def test_complex_samples(tmp_path: Path, write: Write) -> None:
    z = X + 1j * E
    np.save(tmp_path / "a.npy", z.astype(np.complex64))
    found = read_stream(tmp_path / "a.npy", 0.5)
    assert found.values.dtype == np.complex128 and found.dt == 0.5
    np.testing.assert_allclose(found.values, z, rtol=1e-6)
    for name, cells in (("j", "{0}"), ("numpy", "({0.real!r}+{0.imag!r}j)"), ("i", "{0}")):
        text = "".join(f"{i},{cells.format(one)}\n" for i, one in enumerate(z.tolist()))
        text = text.replace("j", "i") if name == "i" else text
        np.testing.assert_array_equal(read_stream(write("b.csv", text)).values, z)
    np.savetxt(tmp_path / "c.txt", z.conj())  # written as (1+-2j)
    np.testing.assert_array_equal(read_stream(tmp_path / "c.txt", 0.5).values, z.conj())


def test_complex_samples_in_two_columns(tmp_path: Path, write: Write) -> None:
    z = X + 1j * E
    columns = "".join(
        f"{i},{a!r},{b!r}\n" for i, (a, b) in enumerate(zip(X.tolist(), E.tolist(), strict=True))
    )
    found = read_stream(write("a.csv", "t,re,im\n" + columns))
    np.testing.assert_array_equal(found.values, z)
    assert said(found, "'re' and 'im' taken as real and imaginary part")
    for options in ({"complex": True}, {"column": "b,c"}, {"column": "2, 3"}):
        found = read_stream(write("b.csv", "t,b,c\n" + columns), **options)
        np.testing.assert_array_equal(found.values, z)
    with pytest.raises(ValueError, match="received the columns 'b', 'c'; name"):  # the control
        read_stream(write("b.csv", "t,b,c\n" + columns))
    pairs = "".join(line.partition(",")[2] + "\n" for line in columns.splitlines())
    np.testing.assert_array_equal(read_stream(write("c.txt", pairs), 0.5, complex=True).values, z)
    np.testing.assert_array_equal(read_stream(write("d.csv", "re,im\n" + pairs), 0.5).values, z)
    wavfile.write(tmp_path / "iq.wav", 8000, np.stack([X, E], 1))
    np.testing.assert_array_equal(read_stream(tmp_path / "iq.wav", complex=True).values, z)
    np.savez(tmp_path / "e.npz", I=X, Q=E, fs=10.0)
    np.testing.assert_array_equal(read_stream(tmp_path / "e.npz").values, z)


def test_missing_complex_samples(tmp_path: Path) -> None:
    z = X + 1j * E
    z[5] = complex(1.0, np.nan)
    np.save(tmp_path / "a.npy", z)
    assert read_stream(tmp_path / "a.npy", 0.5).missing == 1
    filled = read_stream(tmp_path / "a.npy", 0.5, fill="linear")
    assert filled.values[5] == pytest.approx(0.5 * (z[4] + z[6]))


# --- Columns by their names -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        (["a", "flux", "b"], "flux"),
        (["Flux [e-/s]", "background", "SAP_FLUX"], "SAP_FLUX"),
        (["pressure (hPa)", "Sea Level (mm)"], "Sea Level (mm)"),
        (["V mag", "airmass"], "V mag"),
        (["run1/value", "run2/value"], None),
        (["a", "b"], None),
        (["flux_a", "flux_b"], None),
    ],
)
def test_obvious_names(names: list[str], chosen: str | None) -> None:
    assert obvious_series(names) == chosen


def test_names_of_errors_and_parts() -> None:
    names = ["t", "flux", "flux_err", "sap_flux", "err", "e_mag", "mag"]
    assert [errors_of(n, names) for n in ("flux", "sap_flux", "mag")] == [
        "flux_err",
        "err",
        "e_mag",
    ]
    assert errors_of("x", ["t", "x"]) is None
    assert complex_pair(["t", "S_real", "S_imag"]) == ("S_real", "S_imag")
    assert complex_pair(["I", "Q"]) == ("I", "Q")
    assert complex_pair(["re_a", "im_b"]) is None
    assert complex_pair(["re_a", "im_a", "re_b", "im_b"]) is None


def table(*columns: object) -> str:
    """Columns as lines of text."""
    return "".join(
        ",".join(f"{cell!r}" for cell in row) + "\n" for row in zip(*columns, strict=True)
    )  # type: ignore[call-overload]


def test_errors_of_samples(write: Write) -> None:
    t, x, e = range(60), X.tolist(), E.tolist()
    found = read_stream(write("a.csv", "bjd,mag,mag_err,airmass\n" + table(t, x, e, e)))
    np.testing.assert_array_equal(found.errors, E)  # type: ignore[arg-type]
    assert (found.dt, found.time_unit) == (DAY, "d")
    assert said(found, "'mag' chosen") and said(found, "errors 'mag_err'")
    plain = write("b.dat", table(t, x, e))  # no headers: the third column is of the size of errors
    np.testing.assert_array_equal(read_stream(plain).errors, E)  # type: ignore[arg-type]
    assert read_stream(plain, errors="none", column=2).errors is None
    np.testing.assert_array_equal(read_stream(plain, errors=3, column=2).errors, E)  # type: ignore[arg-type]
    large = write("c.dat", table(t, x, [1000 * one for one in e]))  # the control: of another size
    with pytest.raises(ValueError, match="name the one to read"):
        read_stream(large)
    e[4], e[9] = 0.0, float("nan")
    found = read_stream(write("d.csv", "t,x,sigma\n" + table(t, x, e)))
    assert (found.n, found.missing) == (58, 2) and said(found, "2 samples without an error")


def test_truths_of_simulations_are_no_errors(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.tile(X, (60, 1)), sigma=np.ones(60), dt=1.0)
    assert read_rows(tmp_path / "a.npz")[0].long.errors is None
    np.savez(tmp_path / "b.npz", x=X, sigma=E, dt=1.0)  # the control
    np.testing.assert_array_equal(read_stream(tmp_path / "b.npz").errors, E)  # type: ignore[arg-type]


def read_rows(path: Path, **options: object) -> list[Observation]:
    """All signals of a file."""
    return read_observations(path, **options)  # type: ignore[arg-type]


def test_segments_and_relative_brightness(write: Write) -> None:
    quarter = np.repeat([3, 4], 30)
    flux = np.where(quarter == 3, 1000.0, 500.0) * (1 + 0.01 * X)
    text = "time [d],flux,flux_err,quarter\n" + table(
        range(60), flux.tolist(), (0.01 * flux).tolist(), quarter.tolist()
    )
    found = read_stream(write("a.csv", text))
    np.testing.assert_array_equal(found.segments, quarter)  # type: ignore[arg-type]
    relative = read_stream(write("a.csv", text), relative=True)
    for one in (3, 4):
        assert np.median(relative.values[quarter == one]) == pytest.approx(0, abs=1e-12)
    assert relative.values.std() == pytest.approx(0.01 * X.std(), rel=0.1)
    np.testing.assert_allclose(relative.errors, 0.01 * (1 + relative.values))  # type: ignore[arg-type]
    assert said(relative, "divided by their median") and said(found, "'quarter' numbers")
    for cells in (["a"] * 60, [1 + i % 4 for i in range(60)]):  # words; quarters that come again
        other = "time [d],flux,quarter\n" + table(range(60), flux.tolist(), cells)
        assert read_stream(write("b.csv", other)).segments is None


# --- Time stamps ----------------------------------------------------------------------------------


def test_stamps_in_any_order(write: Write, seed: int) -> None:
    order = np.random.default_rng(seed).permutation(60)
    found = read_stream(write("a.csv", table((0.5 * order).tolist(), X[order].tolist())))
    np.testing.assert_array_equal(found.values, X)
    assert found.dt == 0.5 and said(found, "sorted by time")
    found = read_stream(write("b.csv", table(range(60, 0, -1), X.tolist())))
    np.testing.assert_array_equal(found.values, X[::-1])
    assert said(found, "falling")


def test_repeated_stamps_are_merged(write: Write) -> None:
    """Into their mean, weighted with the errors, and with a warning."""
    t = [*range(60), 10]
    x, e = [*X.tolist(), 5.0], [*E.tolist(), 0.5]
    found = read_stream(write("a.csv", "t,x,err\n" + table(t, x, e)))
    weights = np.array([E[10] ** -2, 4.0])
    assert found.is_even and found.n == 60
    assert found.values[10] == pytest.approx(np.average([X[10], 5.0], weights=weights))
    assert found.errors is not None and found.errors[10] == pytest.approx(weights.sum() ** -0.5)
    np.testing.assert_array_equal(np.delete(found.values, 10), np.delete(X, 10))
    assert any("had the time stamp of another" in words for words in describe(found).warnings)
    t = [i // 2 for i in range(60)]  # for want of digits
    with pytest.raises(ValueError, match=r"30 of 60 that repeat another one.*--time none"):
        read_stream(write("b.csv", table(t, X.tolist())))


def test_missing_stamps_are_left_out(write: Write) -> None:
    dates = [f"2024-03-01T00:{i:02d}:00" for i in range(60)]
    dates[0] = dates[30] = ""
    found = read_stream(
        write(
            "a.csv",
            "date,x\n" + "".join(f"{d},{x!r}\n" for d, x in zip(dates, X.tolist(), strict=True)),
        )
    )
    kept = np.delete(np.arange(60), [0, 30])
    np.testing.assert_array_equal(found.values, X[kept])
    np.testing.assert_allclose(found.times, 60.0 * (kept - 1))
    assert said(found, "2 of 60 samples without a time stamp")


def test_barycentric_times_stay_as_they_are() -> None:
    """A drift of 0.075 % of the step per step is neither a grid nor a reason to refuse."""
    t = 1765.46 * np.arange(1300.0)
    t += 490 * np.sin(2 * np.pi * t / YEAR)
    found = timeline_of(Stamps(t, 0.0, 1e-6, False))
    assert not found.is_even and found.n == 1300
    np.testing.assert_array_equal(found.seconds, t)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("header", "stamps", "step", "unit"),
    [
        ("time,value", 1749 + np.arange(60) / 12, YEAR / 12, "yr"),
        ("time,value", 1871.0 + np.arange(60), YEAR, "yr"),
        ("year,value", 1821.0 + np.arange(60), YEAR, "yr"),
        ("time,value", 2451545.0 + np.arange(60) / 10, DAY / 10, "d"),
        ("time,flux", 1683 + np.arange(60) / 720, 120.0, "d"),
        ("time,volts", 1683 + np.arange(60) / 720, 1 / 720, "s"),
        ("time,value", 1900 + 0.1 * np.arange(60), 0.1, "s"),
        ("time [h],value", np.arange(60), 3600.0, "h"),
        ("", 113225 + np.arange(60) / 24, 3600.0, "d"),
        ("", 54953.5388 + np.arange(60) * 0.02043423, 1765.517, "d"),
        ("", 1200.0 + np.arange(60) / 24, 1 / 24, "s"),
        ("", 54953.5388 + np.arange(60) * 0.03, 0.03, "s"),
    ],
)
def test_units_of_time_are_kept(
    write: Write, header: str, stamps: np.ndarray, step: float, unit: str
) -> None:
    above = f"{header}\n" if header else ""
    found = read_stream(write("a.csv", above + table(stamps.tolist(), X.tolist())))
    assert (found.dt, found.time_unit) == (pytest.approx(step, rel=1e-6), unit)
    if unit != "s":
        assert not said(found, "taken as seconds")


def test_calendars(write: Write) -> None:
    """Year, month, day and hour in columns of their own, as tide gauges have them, with and without headers."""
    hours = np.datetime64("2010-02-28T00", "h") + np.arange(60)
    rows = [
        f"{d.year},{d.month},{d.day},{d.hour},{x!r}\n"
        for d, x in zip(hours.astype(object), X.tolist(), strict=True)
    ]
    for header in ("", "year,month,day,hour,level\n"):
        found = read_stream(write("a.csv", header + "".join(rows)))
        np.testing.assert_array_equal(found.values, X)
        assert (found.dt, found.time_unit) == (3600.0, "d")
        assert said(found, "2010-02-28T00:00:00")
    months = "".join(
        f"{1958 + i // 12} {1 + i % 12} {1958 + i / 12:.4f} {x!r}\n"
        for i, x in enumerate(X.tolist())
    )
    found = read_stream(write("b.txt", "# year month decimal_date average\n" + months))
    assert found.dt == pytest.approx(YEAR / 12, rel=1e-4) and found.time_unit == "yr"
    plain = "".join(f"{1 + i},{i % 12 + 1},{x!r}\n" for i, x in enumerate(X.tolist()))
    with pytest.raises(ValueError, match="name the one to read"):  # the control: no calendar
        read_stream(write("c.csv", plain))


# --- Marks of missing values ----------------------------------------------------------------------


def test_marks_are_told_from_data() -> None:
    x = np.where(np.arange(60) % 20 == 7, -99.99, X)
    assert without_marks(x, None, ())[0].tolist() == x.tolist()  # nobody said so
    cleaned, notes = without_marks(x, None, (-99.99,))
    assert np.isnan(cleaned).sum() == 3 and notes == (
        "3 of 60 samples are -99.99, taken as missing",
    )
    assert np.isnan(without_marks(x, -99.99, ())[0]).sum() == 3
    ramp = np.arange(940.0, 1000.0)  # 999 is a value like others
    assert not np.isnan(without_marks(ramp, None, (999.0,))[0]).any()
    tide = np.where(np.arange(60) == 5, -32767.0, 100 * X)
    assert np.isnan(without_marks(tide, None, ())[0]).sum() == 1
    single = np.where(np.arange(60) == 5, 1e20, X).astype(np.float32)
    assert np.isnan(without_marks(single.astype(float), None, ())[0]).sum() == 1


def test_marks_in_remarks(write: Write) -> None:
    assert marks_in_text(["missing value: -99.99", "-1 denotes no data"]) == (-99.99, -1.0)
    assert marks_in_text(["2010-01-01 missing", "3 samples", "none"]) == ()
    x = X.tolist()
    x[8] = -99.99
    lines = "".join(f"{i} {one!r}\n" for i, one in enumerate(x))
    found = read_stream(write("a.txt", "# missing data are -99.99\n# time x\n" + lines))
    assert found.missing == 1 and said(found, "1 of 60 samples are -99.99")
    assert read_stream(write("b.txt", lines)).missing == 0
    assert read_stream(write("b.txt", lines), missing=-99.99).missing == 1


# --- Any suffix -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.asc", "a.lc", "a.data", "a", "a.dat", "a.2024"])
def test_any_suffix_of_a_table(write: Write, name: str) -> None:
    np.testing.assert_array_equal(read_stream(write(name, table(range(60), X.tolist()))).values, X)


def test_formats_by_their_first_bytes(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "b.npz", x=X)
    wavfile.write(tmp_path / "c.wav", 8, X)
    savemat(tmp_path / "d.mat", {"x": X})
    with h5py.File(tmp_path / "e.h5", "w") as file:
        file["x"] = X
    for path in sorted(tmp_path.iterdir()):
        other = tmp_path / f"{path.stem}.part"
        other.write_bytes(path.read_bytes())
        np.testing.assert_array_equal(read_stream(other, 0.125).values, X)
        if path.suffix != ".npz":  # any archive begins like that
            wrong = other.rename(tmp_path / f"{path.stem}.txt")
            np.testing.assert_array_equal(read_stream(wrong, 0.125).values, X)


def test_refusals_say_what_to_do(tmp_path: Path, write: Write) -> None:
    (tmp_path / "a.csv").write_bytes(b"\x1f\x8b" + bytes(40))
    (tmp_path / "b").write_bytes(bytes(range(256)))
    for path, words in (
        (write("a.xlsx", "1"), "save the sheet as CSV"),
        (write("a.mp3", "1"), "convert it to WAV"),
        (tmp_path / "a.csv", "packed with gzip; unpack it first"),
        (tmp_path / "b", "expected text, received binary"),
    ):
        start = time.monotonic()
        with pytest.raises(ValueError, match=words):
            read_stream(path)
        assert time.monotonic() - start < 1


# --- Several files as one series ------------------------------------------------------------------


def test_sectors_are_joined(tmp_path: Path) -> None:
    """Each file has an offset of its own, and all of them one clock."""
    names = [tmp_path / f"s{i}.fits" for i in range(3)]
    for i, name in enumerate(names):
        write_light_curve(name, first=100 * i)
    found = read_observation([names[1], names[0], names[2]]).long
    assert found.n == 3 * 56 and found.segments is not None and found.errors is not None
    np.testing.assert_array_equal(found.segments, np.repeat([1, 0, 2], 56))  # by time
    np.testing.assert_allclose(found.times[56:] - found.times[:-56], DAY * 100 / 720, rtol=1e-9)
    assert said(found, "3 files joined")
    relative = read_observation(names, relative=True).long
    assert abs(np.median(relative.values[:56])) < 1e-7 and relative.unit == ""


def test_files_that_do_not_belong_together(tmp_path: Path, write: Write) -> None:
    a = write("a.csv", "t,x [V]\n" + table(range(60), X.tolist()))
    b = write("b.csv", "t,x [mV]\n" + table(range(60, 120), X.tolist()))
    with pytest.raises(ValueError, match=r"different ones \(unit: 'V', 'mV'\)"):
        read_observation([a, b])
    dates = write("c.csv", "2024-03-01,1\n2024-03-02,2\n")
    with pytest.raises(ValueError, match=r"c\.csv: .*share one clock"):
        read_observation([a, dates])
    np.save(tmp_path / "d.npy", X)
    with pytest.raises(ValueError, match="files with time stamps to join"):
        read_observation([tmp_path / "d.npy", tmp_path / "d.npy"], 1.0)
    twice = read_observation([a, a]).long
    assert twice.n == 60 and said(twice, "60 samples with the time stamp of another file left out")


# --- Arrays that are tables -----------------------------------------------------------------------


@pytest.mark.parametrize("upright", [True, False])
def test_arrays_of_time_and_values(tmp_path: Path, upright: bool) -> None:
    t = 0.5 * np.arange(60)
    two, three = np.stack([t, X], 1), np.stack([t, X, E], 1)
    if not upright:
        two, three = two.T, three.T
    np.save(tmp_path / "a.npy", two)
    np.savez(tmp_path / "b.npz", data=two)
    savemat(tmp_path / "c.mat", {"data": two})
    for name in ("a.npy", "b.npz", "c.mat"):
        found = read_stream(tmp_path / name)
        np.testing.assert_array_equal(found.values, X)
        assert found.dt == 0.5 and said(found, "taken as a table")
    np.save(tmp_path / "d.npy", three)
    np.testing.assert_array_equal(read_stream(tmp_path / "d.npy").errors, E)  # type: ignore[arg-type]
    np.testing.assert_array_equal(read_stream(tmp_path / "d.npy", column=3).values, E)


def test_signals_are_no_columns(tmp_path: Path) -> None:
    """The control: rows that do not begin with rising numbers, and rows whose step is known."""
    np.save(tmp_path / "a.npy", np.stack([X, E]))
    with pytest.raises(ValueError, match="a sampling step or time stamps"):
        read_stream(tmp_path / "a.npy")
    np.save(tmp_path / "b.npy", np.stack([np.arange(60.0), X]))
    assert len(read_rows(tmp_path / "b.npy", dt=0.5)) == 2
    np.save(tmp_path / "c.npy", np.stack([X, E], 1))
    with pytest.raises(ValueError, match="expected one signal per row, received 60 rows of 2"):
        read_stream(tmp_path / "c.npy", 0.5)
