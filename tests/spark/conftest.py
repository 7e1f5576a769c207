"""One Spark session for the whole test run: starting it takes longer than most tests together.

Mark its users `@pytest.mark.xdist_group("spark")`: every worker that uses it starts a JVM.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.spark.engines import require_spark
from xlahouse.sql.spark import SPARK_SETTINGS

SETTINGS = {
    **SPARK_SETTINGS,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A handful of rows: what costs time here is compiling plans, scheduling tasks and starting.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.files.openCostInBytes": "0",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
    # A session of hundreds of large plans: Spark keeps the last thousand for its page by default, and
    # its JVM, of 1 GiB by default, ends where they do not fit.
    "spark.driver.memory": "5g",
    "spark.sql.ui.retainedExecutions": "1",
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.ui.retainedTasks": "1",
}
JAVA = "-XX:+UseSerialGC"
# A session of few views ends before what the JVM's second compiler does pays off.
JAVA_OF_FEW = f"{JAVA} -XX:TieredStopAtLevel=1"


@pytest.fixture(scope="session")
def spark(tmp_path_factory, request):
    """A local SparkSession with two threads."""
    require_spark()
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("xlahouse tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    is_long = any(item.get_closest_marker("verify") for item in request.session.items)
    builder = builder.config("spark.driver.extraJavaOptions", JAVA if is_long else JAVA_OF_FEW)
    folder = tmp_path_factory.mktemp("spark")
    session = builder.config("spark.sql.warehouse.dir", str(folder)).getOrCreate()
    yield session
    session.stop()
