"""Reads a warehouse's folder; a local one without loading fsspec."""

from __future__ import annotations

import os

from xlahouse.capture.errors import WarehouseError
from xlahouse.capture.opening import open_regular, read_regular


class Place:
    """The folder of a warehouse, by path or fsspec URL; every error of the file system passes through.

    Args:
        root: as the user gave it.
    """

    def __init__(self, root: str) -> None:
        if not root:
            raise WarehouseError("the path is empty; give a folder or a URL")
        self.root = root
        self.remote = "://" in root
        self.base = root.rstrip("/") or "/"
        if self.remote:
            from xlahouse.ingest.events.files import open_fs

            self.system, path = open_fs(root)
            self._path = path.rstrip("/")
            self.base = str(self.system.unstrip_protocol(path)).rstrip("/")

    def read(self, name: str) -> bytes:
        """A file's bytes.

        Raises:
            FileNotFoundError: it is not there.
        """
        if self.remote:
            raw: bytes = self.system.cat_file(f"{self._path}/{name}")
            return raw
        return read_regular(f"{self.base}/{name}")

    def exists(self, name: str) -> bool:
        """Whether a file is there."""
        if self.remote:
            return bool(self.system.exists(f"{self._path}/{name}"))
        return os.path.exists(f"{self.base}/{name}")

    def can_be_opened(self, url: str) -> bool:
        """Whether a file, as `url` names it, is there and may be read."""
        name = url.removeprefix(f"{self.base}/")
        try:
            if self.remote:
                with self.system.open(f"{self._path}/{name}", "rb") as file:
                    file.read(1)
            else:
                open_regular(f"{self.base}/{name}").close()
        except Exception:  # each store has its own
            return False
        return True

    def sizes(self, folder: str) -> dict[str, int]:
        """The bytes of a folder's files, by name; none without the folder."""
        if self.remote:
            path = f"{self._path}/{folder}"
            found = self.system.ls(path, detail=True) if self.system.isdir(path) else []
            return {str(info["name"]).rpartition("/")[2]: int(info["size"]) for info in found}
        path = f"{self.base}/{folder}"
        entries = os.scandir(path) if os.path.isdir(path) else ()
        return {entry.name: entry.stat().st_size for entry in entries}

    def names(self, folder: str) -> list[str]:
        """Names of a folder's files and folders, sorted; none without the folder."""
        if self.remote:
            path = f"{self._path}/{folder}"
            found = self.system.ls(path, detail=False) if self.system.isdir(path) else []
            return sorted(str(name).rstrip("/").rpartition("/")[2] for name in found)
        path = f"{self.base}/{folder}"
        return sorted(os.listdir(path)) if os.path.isdir(path) else []

    def url(self, name: str) -> str:
        """A file's name, as DuckDB opens it."""
        return f"{self.base}/{name}"
