"""Opens the file system of a folder or URL: the one place that explains why one cannot be opened."""

from __future__ import annotations

import re
from typing import Any

import fsspec

from xlahouse.capture.errors import WarehouseError

# fsspec names its own extras or classes where a package is missing; people need what pip installs.
PACKAGES = {
    "gs": "'xlahouse[gs]'",
    "gcs": "'xlahouse[gs]'",
    "s3": "'xlahouse[s3]'",
    "s3a": "'xlahouse[s3]'",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "http": "aiohttp requests",
    "https": "aiohttp requests",
}


def open_fs(url: str) -> tuple[Any, str]:
    """The fsspec file system of a path or URL, and the path on it.

    Raises:
        WarehouseError: the text is empty, or its kind of URL is unknown, cannot be reached, or needs
            a package that is not installed.
    """
    if not url:
        raise WarehouseError("an empty path names nothing; give a folder or a URL")
    found = re.search(r"(\w[\w+.-]*)://", url.rpartition("::")[2])
    kind = found[1] if found else ""
    try:
        system, path = fsspec.url_to_fs(url)
    except ImportError as error:
        package = PACKAGES.get(kind)
        advice = f"pip install {package}" if package else f"{error}"
        raise WarehouseError(
            f"{url}: {kind}:// needs a package that is not installed: {advice}"
        ) from error
    except ValueError as error:
        raise WarehouseError(
            f"{url}: {kind}:// is no kind of URL that is known here; give a folder, or a URL such as "
            "gs://BUCKET/FOLDER or s3://BUCKET/FOLDER"
        ) from error
    except Exception as error:  # each kind of store has its own errors, for credentials above all
        raise WarehouseError(f"{url} cannot be opened: {_one_line(error)}") from error
    return system, path


def _one_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
