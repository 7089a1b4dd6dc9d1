"""Where the jars of Apache Kafka are, which ``make broker`` fetches once per environment."""

import os
import shutil
import sys
from pathlib import Path

VARIABLE = "KAFKA_JARS"
"""Names another folder of jars than the one in the environment."""


def jar_folder() -> Path:
    """The folder that holds the jars, if they were fetched."""
    return Path(os.environ.get(VARIABLE) or Path(sys.prefix) / "kafka")


def missing() -> str | None:
    """Why no broker can be started here, and what to do; None if one can."""
    if shutil.which("java") is None:
        return "no Java to run Apache Kafka on; run `make broker`"
    if not list(jar_folder().glob("kafka_2.13-*.jar")):
        return f"no jars of Apache Kafka in {jar_folder()}; run `make broker`"
    return None
