"""An S3 server of this process, which stands for all object stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import fsspec
import pytest


@contextmanager
def s3_bucket() -> Iterator[str]:
    """The URL of an empty bucket; processes that are started meanwhile find the server, too."""
    pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        fs = fsspec.filesystem("s3", skip_instance_cache=True)
        bucket = f"xlahouse-test-{port}"  # what earlier servers of this process held is still there
        fs.mkdir(bucket)
        yield f"s3://{bucket}"
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    server.stop()
