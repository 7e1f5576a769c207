"""Reads weights from safetensors, one tensor at a time, by the names of transformers' modules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from xlahouse.capture.errors import CaptureError
from xlahouse.capture.models.held import Box, whole_box
from xlahouse.capture.opening import check_regular, read_regular

if TYPE_CHECKING:
    import torch

    from xlahouse.capture.models.modules import CausalModel

_INDEX = "model.safetensors.index.json"
_SCALE = "_scale_inv"  # beside a block-scaled fp8 weight: the factor of each block
_BLOCK = 128  # rows and columns of a block, unless the checkpoint's config.json says otherwise


class StoredTensor(Protocol):
    """A tensor in a safetensors file."""

    def get_shape(self) -> list[int]: ...

    def __getitem__(self, box: Box) -> torch.Tensor: ...


class SafetensorsFile(Protocol):
    """An open safetensors file."""

    def get_slice(self, key: str) -> StoredTensor: ...

    def get_tensor(self, key: str) -> torch.Tensor: ...


class Checkpoint:
    """A folder of safetensors files with a config.json, as on the hub.

    Stored names are those of the released checkpoint; transformers' table maps each to a tensor of a
    module, into which single experts are merged.
    """

    def __init__(self, folder: Path, model: CausalModel) -> None:
        """`model` is the skeleton that will be filled.

        Raises:
            CaptureError: the folder has no safetensors files, or they cannot be read.
        """
        self.folder, self.label, self.stored = folder, str(folder), True
        self.files = _file_of_each(folder)
        self.block = _block_size(folder)
        self.sources = _sources(list(self.files), model)

    def tensor(self, name: str, like: torch.Tensor, box: Box | None = None) -> torch.Tensor:
        """The tensor on the host, dequantised, with the shape of `like`; of files only `box` is read,
        and the rest is 0.

        Raises:
            CaptureError: the checkpoint lacks it, or has another shape.
        """
        import torch

        parts = self.sources.get(name)
        if not parts:
            raise CaptureError(
                f"{self.folder}: no weight {name}; is it a checkpoint of the plan's model?"
            )
        box = box or whole_box(like.shape)
        if parts == [[parts[0][0]]] and not _is_merged(name):
            read = self._read(parts[0][0], name, like.shape, box)
            if read.shape == like.shape:
                return read
            whole = torch.zeros(like.shape, dtype=read.dtype)
            whole[box] = read
            return whole
        return self._merged(parts, name, like.shape, box)

    def _merged(
        self, parts: list[list[str]], name: str, shape: torch.Size, box: Box
    ) -> torch.Tensor:
        """The experts of `box`, each of parts that follow one another in its rows."""
        import torch

        whole: torch.Tensor | None = None
        rows = shape[1] // len(parts)
        for part, keys in enumerate(parts):
            if len(keys) != shape[0]:
                raise CaptureError(
                    f"{self.folder}: {name} has {shape[0]} experts, the checkpoint {len(keys)}; set "
                    "n_routed_experts in the plan"
                )
            start, stop = (
                min(max(row - part * rows, 0), rows) for row in (box[1].start, box[1].stop)
            )
            inner = (slice(start, stop), *box[2:])
            # The first is looked at even where none is held: it has the dtype.
            for expert, key in list(enumerate(keys))[box[0]] or [(0, keys[0])]:
                held = box[0].start <= expert < box[0].stop
                own = inner if held else tuple(slice(0, 0) for _ in inner)
                read = self._read(key, name, torch.Size((rows, *shape[2:])), own)
                if whole is None:
                    whole = torch.zeros(shape, dtype=read.dtype)
                if held:
                    whole[expert, part * rows + start : part * rows + stop, *box[2:]] = read
        assert whole is not None
        return whole

    def drawing(self, name: str, like: torch.Tensor) -> None:
        """Weights are read, not drawn."""

    def _read(self, key: str, name: str, shape: torch.Size, box: Box) -> torch.Tensor:
        """A stored tensor's box, dequantised."""
        stored_shape = self._shape(key)
        if stored_shape != tuple(shape):
            raise CaptureError(
                f"{self.folder}: {key} is {list(stored_shape)}, but {name} of the plan's model is "
                f"{list(shape)}; correct the model's config in the plan"
            )
        scale = f"{key}{_SCALE}"
        if scale not in self.files:
            return self._load(key, box)
        # Whole blocks, and the scales of these.
        blocks = tuple(
            slice(side.start // size, -(-side.stop // size))
            for side, size in zip(box, self.block, strict=True)
        )
        sides = zip(blocks, self.block, shape, strict=True)
        wide = tuple(slice(b.start * n, min(b.stop * n, length)) for b, n, length in sides)
        found = dequantise(self._load(key, wide), self._load(scale, blocks), self.block)
        within = (
            slice(side.start - outer.start, side.stop - outer.start)
            for side, outer in zip(box, wide, strict=True)
        )
        return found[tuple(within)]

    def _shape(self, key: str) -> tuple[int, ...]:
        with self._opened(key) as file:
            return tuple(file.get_slice(key).get_shape())

    def _load(self, key: str, box: Box) -> torch.Tensor:
        """A stored tensor's box, and no more of the file."""
        with self._opened(key) as file:
            stored = file.get_slice(key)
            whole = box == whole_box(stored.get_shape())
            tensor: torch.Tensor = file.get_tensor(key) if whole else stored[box]
            return tensor

    @contextmanager
    def _opened(self, key: str) -> Iterator[SafetensorsFile]:
        from safetensors import SafetensorError, safe_open

        try:
            check_regular(self.folder / self.files[key])
            with safe_open(self.folder / self.files[key], framework="pt") as file:
                yield file
        except (OSError, SafetensorError) as error:
            raise CaptureError(
                f"{self.folder / self.files[key]}: {error}; download the checkpoint again"
            ) from error


def dequantise(weight: torch.Tensor, scale: torch.Tensor, block: tuple[int, int]) -> torch.Tensor:
    """fp8 [rows, columns] times its block's scale, [row blocks, column blocks] -> float32."""
    rows, columns = weight.shape
    wide = scale.float().repeat_interleave(block[0], 0)[:rows]
    return weight.float() * wide.repeat_interleave(block[1], 1)[:, :columns]


def find_checkpoint(name: str) -> Path:
    """A local folder, or the hub's snapshot of a repository, downloaded if necessary.

    Raises:
        CaptureError: neither a folder nor a repository that the hub provides.
    """
    if Path(name).is_dir():
        return Path(name)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        return Path(snapshot_download(name, allow_patterns=["*.safetensors", "*.json"]))
    except (HfHubHTTPError, HFValidationError, OSError) as error:
        raise CaptureError(
            f"weights {name}: no such folder, and the hub reports: {str(error).splitlines()[0]}"
        ) from error


def _file_of_each(folder: Path) -> dict[str, str]:
    """Stored tensor -> its file."""
    from safetensors import SafetensorError, safe_open

    index = folder / _INDEX
    try:
        if index.exists():
            files: dict[str, str] = json.loads(read_regular(index))["weight_map"]
            return files
        found: dict[str, str] = {}
        for path in sorted(folder.glob("*.safetensors")):
            check_regular(path)
            with safe_open(path, framework="pt") as file:
                found |= dict.fromkeys(file.keys(), path.name)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, SafetensorError) as error:
        raise CaptureError(f"{folder}: {error}; download the checkpoint again") from error
    if not found:
        raise CaptureError(f"{folder}: no *.safetensors file; name a checkpoint's folder")
    return found


def _block_size(folder: Path) -> tuple[int, int]:
    """Rows and columns of an fp8 block, from config.json."""
    try:
        config = json.loads(read_regular(folder / "config.json"))
        rows, columns = config["quantization_config"]["weight_block_size"]
        return int(rows), int(columns)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return _BLOCK, _BLOCK


def _sources(keys: list[str], model: CausalModel) -> dict[str, list[list[str]]]:
    """Module tensor -> the stored tensors that make it up, [part][expert].

    Parts follow one another in the second dimension (gate before up), experts in the first.
    """
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import (
        WeightConverter,
        WeightRenaming,
        dot_natural_key,
        rename_source_key,
    )

    transforms = get_model_conversion_mapping(model)
    renamings = [each for each in transforms if isinstance(each, WeightRenaming)]
    converters = [each for each in transforms if isinstance(each, WeightConverter)]
    order = [pattern for each in converters for pattern in each.source_patterns]
    wanted = model.state_dict()
    grouped: dict[str, dict[int, list[str]]] = {}
    for key in sorted((key for key in keys if not key.endswith(_SCALE)), key=dot_natural_key):
        name, pattern = rename_source_key(
            key, renamings, converters, model.base_model_prefix, wanted
        )
        if name not in wanted and key in wanted:  # the renaming is for another tensor
            name = key
        part = order.index(pattern) if pattern is not None else 0
        grouped.setdefault(name, {}).setdefault(part, []).append(key)
    return {name: [parts[part] for part in sorted(parts)] for name, parts in grouped.items()}


def _is_merged(name: str) -> bool:
    return ".experts." in name and not name.endswith(".weight")
