"""Mutates the containers of traces: gzip, Zstandard, zip and tar, cut, spliced, lying or bombs."""

from __future__ import annotations

import gzip
import io
import random
import stat
import tarfile
import zipfile

import polars as pl

from tests.ingest.damage import damage

_MEMBERS = (
    "../out.xplane.pb", "/tmp/out.xplane.pb", "a/../../out.xplane.pb", "a\\b.xplane.pb",
    "a\nb.xplane.pb", ".xplane.pb",
    "x.xplane.pb/y.xplane.pb", "a" * 300 + ".xplane.pb", "é.xplane.pb", "", "a/",
    "con.xplane.pb", "x.xplane.pb",
    "\x1b[2J.xplane.pb", "deep/" * 200 + "x.xplane.pb", "in.zip", "x.xplane.pb.gz",
)  # fmt: skip


def zstd(raw: bytes) -> bytes:
    """One frame of Zstandard."""
    import pyarrow as pa

    return bytes(pa.compress(raw, codec="zstd", asbytes=True))


def mutated_packed(raw: bytes, ending: str, draw: random.Random) -> bytes:
    """A packed file of one member, `.gz` or `.zst`: damaged, doubled, cut, or followed by something."""
    packed = gzip.compress(raw, mtime=0) if ending == ".gz" else zstd(raw)
    match draw.randrange(8):
        case 0:
            return packed + packed
        case 1:
            return packed + draw.randbytes(draw.choice((1, 10, 1000)))
        case 2:
            return packed[: draw.randrange(len(packed))]
        case 3:
            half = len(raw) // 2
            first, rest = raw[:half], raw[half:]
            pack = (lambda part: gzip.compress(part, mtime=0)) if ending == ".gz" else zstd
            return pack(first) + pack(rest)
        case 4:
            return (packed if ending == ".gz" else gzip.compress(packed, mtime=0))[
                :-8
            ] + draw.randbytes(8)
        case 5:
            zeros = bytes(draw.choice((1 << 20, 1 << 26)))
            return gzip.compress(raw + zeros, 9, mtime=0) if ending == ".gz" else zstd(raw + zeros)
        case 6:
            return (gzip.compress(packed, mtime=0), raw, b"", packed[:1])[draw.randrange(4)]
        case _:
            return damage(packed, draw)


def mutated_archive(name: str, raw: bytes, ending: str, draw: random.Random) -> bytes:
    """An archive with the trace in it, and beside it members with odd names, types and sizes.

    One in four is an archive within archives.
    """
    if draw.random() < 0.25:
        inner = draw.choice((".zip", ".tar", ".tgz"))
        nested = mutated_archive(name, raw, inner, draw)
        members = [(f"in/a{inner}", nested), *([(name, raw)] if draw.random() < 0.5 else [])]
        return _packed(members, ending, draw.random() < 0.5, draw)
    members = [(name, raw)]
    contents = (raw, b"", raw[: len(raw) // 2])
    for _ in range(draw.choice((0, 1, 1, 3))):
        members += [(draw.choice(_MEMBERS), draw.choice(contents))]
    if draw.random() < 0.2:
        members.append((name, raw[:50]))  # one name twice
    draw.shuffle(members)
    with_odd = draw.random() < 0.5
    packed = _packed(members, ending, with_odd, draw)
    return damage(packed, draw) if draw.random() < 0.5 else packed


def _packed(
    members: list[tuple[str, bytes]], ending: str, with_odd: bool, draw: random.Random
) -> bytes:
    if ending == ".zip":
        return _zip(members, with_odd, draw)
    return _tar(members, ending, with_odd, draw)


def _zip(members: list[tuple[str, bytes]], with_odd: bool, draw: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(
        out, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    ) as packed:
        for name, raw in dict(members).items():
            packed.writestr(zipfile.ZipInfo(name or "empty"), raw)
        if with_odd:
            odd = zipfile.ZipInfo("link.xplane.pb")
            odd.external_attr = draw.choice((stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR)) << 16
            packed.writestr(odd, b"/etc/passwd")
    return out.getvalue()


def _tar(
    members: list[tuple[str, bytes]], ending: str, with_odd: bool, draw: random.Random
) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w" if ending == ".tar" else "w:gz") as packed:
        for name, raw in members:
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            packed.addfile(info, io.BytesIO(raw))
        if with_odd:
            odd = tarfile.TarInfo("link.xplane.pb")
            odd.type = draw.choice(
                (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE, b"Z")
            )
            odd.linkname = draw.choice(("/etc/passwd", members[0][0], "link.xplane.pb", ""))
            packed.addfile(odd)
    return out.getvalue()


def mutated_parquet(raw: bytes, other: bytes, draw: random.Random) -> bytes:
    """A Parquet file: damaged, cut, another one, or whole with other columns, types or rows."""
    match draw.randrange(10):
        case 0:
            return damage(raw, draw)
        case 1:
            return raw[: draw.randrange(len(raw))]
        case 2:
            return other
        case 3:
            return b""
        case 4:
            return draw.randbytes(len(raw))
        case 5:  # the footer, which says where everything is
            out = bytearray(raw)
            for _ in range(draw.choice((1, 3, 10))):
                size = int.from_bytes(raw[-8:-4], "little")
                out[-8 - draw.randrange(1, size + 1)] = draw.randrange(256)
            return bytes(out)
        case _:
            frame = _other_frame(pl.read_parquet(io.BytesIO(raw)), draw)
            buffer = io.BytesIO()
            frame.write_parquet(buffer)
            return buffer.getvalue()


def _other_frame(frame: pl.DataFrame, draw: random.Random) -> pl.DataFrame:
    column = draw.choice(frame.columns)
    match draw.randrange(7):
        case 0:
            return frame.drop(column)
        case 1:
            return frame.with_columns(pl.lit("x").alias(column))
        case 2:
            return frame.with_columns(pl.lit(None).alias(column))
        case 3:
            return frame.head(0)
        case 4:
            return pl.concat([frame, frame])
        case 5:
            return frame.rename({column: f"{column} 2"})
        case _:
            kind = frame.schema[column]
            extreme = (1 << 63) - 1 if kind == pl.Int64 else None
            return frame.with_columns(
                pl.lit(extreme, kind if extreme else pl.Float64).alias(column)
            )
