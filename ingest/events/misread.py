"""Explains why a file cannot be read as a trace: what copying did to it, or which other type it has."""

from __future__ import annotations

import re

from xlahouse.ingest.events.containers import GZIP, ZSTD, unpack, unpacked_start
from xlahouse.ingest.events.trace_bytes import TraceBytes, blocks

# A text codec's replacement for a byte that is not UTF-8.
REPLACEMENT = b"\xef\xbf\xbd"
_SEEN = 1 << 20  # bytes of a file that are examined
_LEAST_BINARY = 1000  # a binary file of at least so many bytes has bytes of every kind
_COPY_AGAIN = "copy the original again, in binary mode"
_AS_DUMP = (
    "give its folder with --hlo-dump, beside the trace that it belongs to, and let its name end in"
)
# First bytes -> type of the file, and what to do.
_FOREIGN = {
    b"version https://git-lfs": "a pointer of Git LFS, not the file itself; run `git lfs pull`",
    b"PK\x03\x04": "a zip archive; unpack it",
    b"BZh": "bzip2 data; unpack it",
    b"\xfd7zXZ\x00": "xz data; unpack it",
    b"SQLite format 3\x00": "an SQLite database; export an xplane or a Chrome trace from its profiler",
    b"\x83\xafp\xd1\x0d\x88J?": "a Riegeli file; export an xplane or a Chrome trace from its profiler",
    b"PAR1": "a Parquet file, not a trace",
    b"HloModule ": f"a compiled program (HLO text), not a trace; {_AS_DUMP} .hlo",
    b"ML\xefR": "a program before it is compiled (MLIR bytecode), not a trace",
}
_PROGRAM = f"a compiled program (an HLO proto), not a trace; {_AS_DUMP} .hlo_proto.pb"
_XPLANE = re.compile(rb"\x12[\x01-\x7f]/(?:host|device):")
_FIRST_FIELD = re.compile(rb"\n([\x80-\xff]{0,4}[\x00-\x7f])")  # field 1 and its length
_PAGE = re.compile(rb"\s*<(?:!doctype|html|\?xml|head|body)", re.IGNORECASE)
_BASE64 = re.compile(rb"[A-Za-z0-9+/\r\n]+=*\s*")


def what_it_is(raw: TraceBytes, named: str = "") -> str | None:
    """The type of a refused file, and what to do; None where its refusal says it all.

    Args:
        raw: the whole file, compressed or not.
        named: kind of trace by its name: `xplane` or `chrome`.
    """
    if not len(raw):
        return "the file is empty: the profiler wrote nothing; capture again"
    if not bytes(raw[:_SEEN]).strip(b"\0"):
        return "it holds only zeros: its contents were lost in writing or copying; copy it again"
    codec = text_codec(raw)
    if codec is not None:
        return codec
    head = bytes(raw[:_SEEN])
    if head.startswith((GZIP, ZSTD)):
        head = unpacked_start(head, _SEEN)[:_SEEN]
        if not head:
            damage = unpack(bytes(raw[:_SEEN]))[1]
            if damage is not None:
                return f"{damage}, and nothing before that can be read; copy it again"
            return "it is an empty archive: the profiler wrote nothing; capture again"
        if head.startswith((GZIP, ZSTD)):
            return "packed twice; unpack it once"
    return _contents(head, named)


def under_another_name(head: bytes) -> str | None:
    """What a file is whose name is not that of a trace; None if it is neither trace nor compiled program.

    head: its first bytes, compressed or not.
    """
    text = unpacked_start(head, _SEEN)[:_SEEN]
    is_program = is_program_proto(text) or text.lstrip().startswith(b"HloModule ")
    return _contents(text, "") if is_program or is_xplane(text) else None


def is_xplane(head: bytes) -> bool:
    """Whether a file that begins so is an xplane: its first plane has the name of one."""
    return head.startswith(b"\n") and _XPLANE.search(head[:4096]) is not None


def is_program_proto(head: bytes) -> bool:
    """Whether a file that begins so is an HLO proto: a module, or messages that begin with one.

    The first field of a module is its name, and that of the messages around it the module: number 1 and text
    or a message, each. In an xplane that is a plane, whose own number 1 is not a text.
    """
    at = 0
    while found := _FIRST_FIELD.match(head, at):
        at = found.end()
        size = sum((byte & 127) << 7 * place for place, byte in enumerate(found[1]))
        name = head[at : at + size]
        if len(name) == size > 0 and name.isascii() and name.decode().isprintable():
            return True
    return False


def text_codec(raw: TraceBytes) -> str | None:
    """What a text codec did to a binary file; None where none changed it."""
    head = bytes(raw[:_SEEN])
    replaced = sum(len(re.findall(REPLACEMENT, block)) for block in blocks(raw))
    if replaced * 100 > len(raw):
        return f"a text codec destroyed it: U+FFFD replaces bytes {replaced:,} times; {_COPY_AGAIN}"
    if len(raw) < _LEAST_BINARY or not re.search(rb"[\x00-\x08\x0e-\x1a]", head):
        return None
    if head.isascii():
        return f"a text codec destroyed it: all bytes beyond ASCII are gone; {_COPY_AGAIN}"
    if _is_latin1_as_utf8(head):
        return (
            "a text codec read its bytes as Latin-1 and wrote them as UTF-8; "
            f"`iconv -f utf-8 -t latin1` undoes that, or {_COPY_AGAIN}"
        )
    ends = head.count(b"\n")
    if ends >= 10 and ends == head.count(b"\r\n"):
        return f"a text mode changed its line ends to CR LF; {_COPY_AGAIN}"
    return None


def _is_latin1_as_utf8(head: bytes) -> bool:
    """Whether all bytes are UTF-8 of characters up to U+00FF: no binary file is so by chance."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 1:  # not a character that the end of the head cuts
            return False
        text = head[: error.start].decode("utf-8")
    return max(text) <= "\xff"


def _contents(head: bytes, named: str) -> str | None:
    for first, what in _FOREIGN.items():
        if head.lstrip().startswith(first):
            return f"it is {what}"
    if head[257:262] == b"ustar":
        return "it is a tar archive; unpack it"
    if _PAGE.match(head):
        return "it is a web page, perhaps a login page; download the file itself"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "it is text in UTF-16; write it as UTF-8"
    if len(head) >= _LEAST_BINARY and _BASE64.fullmatch(head):
        return "it is base64 text; decode it"
    if head.lstrip()[:1] in (b"{", b"["):
        if named == "chrome":
            return None
        return "it is JSON; if it is a Chrome trace, rename it to end in .trace.json"
    if is_program_proto(head):
        return f"it is {_PROGRAM}"
    if is_xplane(head):
        if named == "xplane":
            return (
                "cut off or damaged within its first plane, so that nothing can be read; copy it again, "
                "or capture again"
            )
        return "it is an xplane; rename it to end in .xplane.pb"
    return None
