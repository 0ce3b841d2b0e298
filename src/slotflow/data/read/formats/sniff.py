"""What a file is: its first bytes tell, and its suffix where they do not; anything else is taken for a text table."""

from __future__ import annotations

from pathlib import Path

from slotflow.data.read.formats.nmr import is_fid

__all__ = ["FITS", "HDF5", "MATLAB", "NETCDF", "NUMPY", "SUFFIXES", "TEXT", "WAV", "kind_of"]

TEXT = (".csv", ".tsv", ".txt", ".dat", ".asc", ".lc", ".tbl")
NUMPY = (".npy", ".npz")
HDF5 = (".h5", ".hdf5", ".hdf")
NETCDF = (".nc", ".nc4", ".cdf")
WAV = (".wav",)
FITS = (".fits", ".fit", ".fts")
MATLAB = (".mat",)
SUFFIXES = TEXT + NUMPY + HDF5 + NETCDF + WAV + FITS + MATLAB
"""Endings by which the files of a folder are known; a file that is named may end in anything."""

KINDS = {
    "text": TEXT,
    "numpy": NUMPY,
    "hdf5": HDF5,
    "netcdf": NETCDF,
    "wav": WAV,
    "fits": FITS,
    "matlab": MATLAB,
}
HEADS = {
    b"\x93NUMPY": "numpy",
    b"\x89HDF\r\n\x1a\n": "hdf5",
    b"CDF\x01": "netcdf",
    b"CDF\x02": "netcdf",
    b"CDF\x05": "netcdf",
    b"RIFF": "wav",
    b"SIMPLE  =": "fits",
    b"MATLAB 5.0 MAT-file": "matlab",
    b"MATLAB 7.3 MAT-file": "matlab",
}
"""How files of each kind begin."""
PACKED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"7z\xbc\xaf": "7-Zip",
}
"""How packed files begin."""
REFUSED = {
    **dict.fromkeys((".xlsx", ".xls", ".ods", ".xlsm"), "a spreadsheet; save the sheet as CSV"),
    **dict.fromkeys(
        (".gz", ".bz2", ".xz", ".zst", ".zip", ".7z"), "a packed file; unpack it first"
    ),
    **dict.fromkeys(
        (".mp3", ".ogg", ".flac", ".m4a", ".mp4"), "a compressed sound; convert it to WAV"
    ),
    **dict.fromkeys((".pkl", ".pickle", ".pt"), "pickled objects; write the numbers with np.savez"),
    ".parquet": "a Parquet file; write the columns as CSV or NPZ",
    ".pdf": "a document; write the numbers as CSV",
}
"""What some suffixes stand for that cannot be read, and what to do."""
ZIP = b"PK\x03\x04"


def kind_of(path: Path) -> str:
    """The kind of a file: text, numpy, hdf5, netcdf, wav, fits, matlab or nmr.

    Args:
        path: The file, which is there and not empty.
    """
    suffix = path.suffix.lower()
    with path.open("rb") as file:  # a file that may not be read is an OSError here, with its reason
        head = file.read(1024)
    if not head:
        raise ValueError("the file is empty; expected at least one sample.")
    if is_fid(path):
        return "nmr"
    by_suffix = next((kind for kind, endings in KINDS.items() if suffix in endings), None)
    if suffix in REFUSED:
        raise ValueError(
            f"expected a table, or a file that ends in one of {' '.join(SUFFIXES)}, received {REFUSED[suffix]}."
        )
    kind = next((kind for mark, kind in HEADS.items() if head.startswith(mark)), None)
    if kind == "hdf5" and by_suffix in ("netcdf", "matlab"):  # which are HDF5 as well
        return by_suffix
    if kind is not None and not (kind == "wav" and head[8:12] != b"WAVE"):
        return kind
    packed = next((name for mark, name in PACKED.items() if head.startswith(mark)), None)
    if packed is not None and by_suffix in (None, "text"):
        raise ValueError(
            f"expected numbers or text, received a file packed with {packed}; unpack it first."
        )
    if by_suffix is not None:
        return by_suffix
    if head.startswith(ZIP):
        return "numpy"  # an archive of arrays, or refused as something else
    return "text"
