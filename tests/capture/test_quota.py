"""Types of TPU slices, and the quota that decides which of them may be created."""

from __future__ import annotations

import pytest

from xlahouse.capture.errors import CaptureError, ManifestError
from xlahouse.capture.slices import parse_slice
from xlahouse.capture.tpu.quota import check_quota, read_quota


# v4 and v5p count two TensorCores a chip, the others chips; sizes of one host as Google has them.
@pytest.mark.parametrize(
    ("text", "chips", "accelerator_type", "hosts"),
    [
        ("v4-8", 4, "v4-8", 1),
        ("v4-32", 16, "v4-32", 4),
        ("v5e-1", 1, "v5litepod-1", 1),
        ("v5litepod-16", 16, "v5litepod-16", 4),
        ("v5p-128", 64, "v5p-128", 16),
        ("v6e-8", 8, "v6e-8", 1),
        ("V6E-64", 64, "v6e-64", 16),
    ],
)
def test_types_are_counted_as_google_cloud_counts_them(text, chips, accelerator_type, hosts):
    parsed = parse_slice(text)
    assert (parsed.chips, parsed.accelerator_type, parsed.hosts) == (chips, accelerator_type, hosts)


@pytest.mark.parametrize("text", ["v4-4", "v4-9", "v6e-2", "v6e-0", "v9-8", "tpu", "v6e-8x8", ""])
def test_other_types_are_refused(text):
    with pytest.raises(CaptureError, match="no TPU type"):
        parse_slice(text)


def test_the_shipped_quota_is_the_customers():
    rows = {(grant.type, grant.zone, grant.chips, grant.spot) for grant in read_quota()}
    assert rows == {
        ("v6e", "us-east1-d", 64, True),
        ("v6e", "europe-west4-a", 64, True),
        ("v4", "us-central2-b", 32, False),
        ("v4", "us-central2-b", 32, True),
        ("v5e", "us-central1-a", 64, True),
        ("v5e", "europe-west4-b", 64, True),
    }


# 32 chips of v4 are v4-64.
@pytest.mark.parametrize(
    ("kind", "zone", "spot", "allowed"),
    [
        ("v6e-64", "us-east1-d", True, True),
        ("v6e-128", "us-east1-d", True, False),
        ("v6e-8", "us-east1-d", False, False),
        ("v6e-8", "us-central1-a", True, False),
        ("v4-64", "us-central2-b", False, True),
        ("v4-128", "us-central2-b", True, False),
        ("v5p-8", "us-central2-b", True, False),
    ],
)
def test_only_what_the_quota_has_may_be_asked_for(kind, zone, spot, allowed):
    if allowed:
        check_quota(parse_slice(kind), zone, spot, read_quota())
        return
    with pytest.raises(ManifestError, match=r"not in the quota, which has .* or use --force"):
        check_quota(parse_slice(kind), zone, spot, read_quota())


@pytest.mark.parametrize(
    "text",
    [
        "quota: []",
        "quota: [{type: v6e}]",
        "quota: [{type: v6e, zone: z, chips: 0, spot: yes}]",
        "a: [",
        "",
    ],
)
def test_a_wrong_quota_file_is_one_line(tmp_path, text):
    path = tmp_path / "quota.yaml"
    path.write_text(text)
    with pytest.raises(ManifestError, match=r"a quota file lists grants as") as caught:
        read_quota(path)
    assert "\n" not in str(caught.value)
