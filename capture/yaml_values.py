"""Reads YAML that users write: a few lines of it can stand for any number of values, or for themselves."""

from __future__ import annotations

from collections.abc import Iterable

from xlahouse.capture.limits import exceeded, most


class YamlFault(ValueError):
    """A text is no YAML, or stands for more than is read.

    Args:
        reason: what is wrong, and what to try.
        line: 1-based; None where it is not known.
    """

    def __init__(self, reason: str, line: int | None = None) -> None:
        super().__init__(reason)
        self.line = line

    def at(self, path: object) -> str:
        """What is wrong, after the file and the line."""
        line = f", line {self.line}" if self.line is not None else ""
        return f"{path}{line}: {self}"


def yaml_values(text: str) -> object:
    """The values of a text, of which one that several aliases name is one object.

    Raises:
        YamlFault: it is no YAML, contains itself, has more than `yaml_bytes` characters, which take ten
            seconds to parse, or more than `yaml_values` values, each alias counted with all that it
            stands for.
    """
    import yaml  # loading it takes time

    if len(text) > most("yaml_bytes"):
        raise YamlFault(exceeded("yaml_bytes"))
    try:
        found = yaml.safe_load(text)
        values = _count(found, {})
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise YamlFault(f"not YAML: {problem}; correct the line", mark and mark.line + 1) from error
    except RecursionError as error:
        raise YamlFault("nested too deeply, or contains itself; flatten it") from error
    # PyYAML lets any error of its conversions through: !!bool x, 2024-13-45
    except Exception as error:
        raise YamlFault(f"{error or type(error).__name__}; put text into quotes") from error
    if values > most("yaml_values"):
        raise YamlFault(exceeded("yaml_values"))
    return found


def _count(value: object, known: dict[int, int]) -> int:
    """Values in a tree in which one object may stand in several places.

    Raises:
        RecursionError: it contains itself.
    """
    if not isinstance(value, dict | list | tuple | set):
        return 1
    if id(value) not in known:
        inner: Iterable[object] = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(_count(part, known) for part in inner)
    return known[id(value)]
