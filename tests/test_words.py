"""Words that were edited out of every text that a person reads stay out."""

from __future__ import annotations

import re
import subprocess
from bisect import bisect_right
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Removed phrase -> what to write.
REMOVED = {
    "anew": "again",
    "are no": "are not, or: there are no …",
    "as it stands": "as it is",
    "a file a rank": "a file per rank",
    "a mark a setup": "a mark per setup",
    "be had": "be read",
    "cannot be told": "cannot be determined",
    "dearest": "most expensive",
    "device's step before": "device's previous step",
    "for want of": "without",
    "has to know of": "must know",
    "have to know of": "must know",
    "held against": "compared with",
    "held to": "tested against",
    "hold against": "compare with",
    "is no": "is not a, or: there is no …",
    "is none": "is not one, or: has no …",
    "leave to write": "write permission",
    "let go of": "released",
    "nobody": "no device, no user, …",
    "of the burst before": "of the previous burst",
    "of the step before": "of the previous step",
    "one file a table": "one file per table",
    "passed over": "skipped",
    "so long to be set up": "so long to reconfigure",
    "something else than": "other than",
    "tells of": "states",
    "taken off": "subtracted",
    "told apart": "distinguished",
}
# A noun follows: not `there is no`, nor `is no later than`.
DEGREES = "longer|more|less|later|earlier|larger|such"
NO_NOUN = rf"(?<!there )(?<!There )\b(?:is|are) no\b(?= [a-z])(?! (?:{DEGREES})\b)"
CASED = {"is none", "is no", "are no"}  # `is None` is Python
PHRASES = re.compile(rf"{NO_NOUN}|\bis none\b|\b(?i:{'|'.join(REMOVED.keys() - CASED)})\b")
SUFFIXES = {".py", ".md", ".sql", ".html", ".css", ".js", ".yaml", ".yml", ".toml", ".txt", ""}
SPARED = {"LICENSE", "tests/test_words.py"}
NOBODY = re.compile(r"""["']nobody\b""")  # a run's name that does not exist
# The marks between the words of a text that runs over the end of a line: quotes and comments.
END, START = re.compile(r"""["'\\\s]+$"""), re.compile(r"""^\s*(?:#|--|//|\*|>)?\s*[fr]?["']?""")


def texts():
    """Files that hold text, of everything that git knows or would add."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    chosen = [name for name in listed if Path(name).suffix in SUFFIXES and name not in SPARED]
    return [name for name in chosen if (ROOT / name).is_file()]


def removed_phrases(text):
    """(line, phrase) of each, also of one that runs over the end of a line."""
    lines = [START.sub("", END.sub("", line)) for line in NOBODY.sub("", text).split("\n")]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    found = PHRASES.finditer(" ".join(lines))
    return [(bisect_right(starts, match.start()), match.group()) for match in found]


def test_removed_phrases_do_not_come_back():
    wrong = [
        f"{name}:{line}: {phrase!r}; write {REMOVED[phrase.lower()]!r}"
        for name in texts()
        for line, phrase in removed_phrases((ROOT / name).read_text("utf-8"))
    ]
    assert wrong == []


def test_phrases_are_found_over_the_ends_of_lines():
    assert removed_phrases("x = 1  # it is\n    # none\n") == [(1, "is none")]
    assert removed_phrases('a = "held "\n    "to loops"\nb = "Nobody"') == [
        (1, "held to"),
        (3, "Nobody"),
    ]
    assert removed_phrases("-- one\n-- told\n-- apart") == [(2, "told apart")]
    assert removed_phrases("x is None\nif x: withheld to_day\n'nobody'") == []
    assert removed_phrases("# there\n# is no step; it is no later than\n# a step is no run") == [
        (3, "is no")
    ]
