"""Refuses TPUs outside the quota file, which lists the chips that may be requested, by zone."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import yaml

from xlahouse.capture.errors import ManifestError
from xlahouse.capture.opening import read_regular
from xlahouse.capture.slices import Slice

SHIPPED = Path(str(files("xlahouse.capture"))) / "plans" / "quota.yaml"


class Grant(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Chips of one generation that may be requested in one zone, spot or on demand."""

    type: Literal["v4", "v5e", "v5p", "v6e"]  # generation
    zone: str  # such as us-east1-d
    chips: Annotated[int, msgspec.Meta(ge=1)]  # of one slice at most
    spot: bool  # spot, or on demand

    def __str__(self) -> str:
        return f"{self.chips} {pricing(self.spot)} {self.type} chips in {self.zone}"


class _QuotaFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    quota: Annotated[list[Grant], msgspec.Meta(min_length=1)]  # at least one


def pricing(spot: bool) -> str:
    """`spot` or `on-demand`."""
    return "spot" if spot else "on-demand"


def read_quota(path: Path = SHIPPED) -> list[Grant]:
    """The grants of a quota file.

    Raises:
        ManifestError: the file is missing or not a quota file; names the field.
    """
    try:
        return msgspec.convert(yaml.safe_load(read_regular(path)), _QuotaFile).quota
    except OSError as error:
        raise ManifestError(f"{path}: {error.strerror}; name a quota file") from error
    except (yaml.YAMLError, UnicodeDecodeError, msgspec.ValidationError) as error:
        said = " ".join(str(error).split())
        raise ManifestError(
            f"{path}: {said}; a quota file lists grants as "
            "{type: v6e, zone: us-east1-d, chips: 64, spot: true} under `quota`"
        ) from error


def check_quota(asked: Slice, zone: str, spot: bool, grants: list[Grant]) -> None:
    """Refuse a slice that no grant covers.

    Raises:
        ManifestError: names the grants of that generation, or all.
    """
    of_type = [grant for grant in grants if grant.type == asked.generation.name]
    fitting = [grant for grant in of_type if grant.zone == zone and grant.spot == spot]
    if any(grant.chips >= asked.chips for grant in fitting):
        return
    near = "; ".join(str(grant) for grant in fitting or of_type or grants)
    raise ManifestError(
        f"{asked.chips} {pricing(spot)} {asked.generation.name} chips in {zone} are not in the "
        f"quota, which has {near}; choose one of these, or use --force: it costs money"
    )
