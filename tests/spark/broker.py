"""A Kafka broker for tests: one node in KRaft mode on the loopback, in a process that ends with the one that started it."""

import glob
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyspark
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tempura.frontend.start import find_java

VERSION = "3.9.2"
"""Of the broker: that of the clients which Spark's connector brings."""

PACKAGE = f"org.apache.kafka:kafka_2.13:{VERSION}"

_START, _STOP = 60.0, 10.0
"""Seconds that a broker may take to start and to stop."""

_GUARD = '"$@" & child=$!; read -r _; kill -9 "$child"; wait "$child" 2>/dev/null; exit 0'
"""Ends the broker when the standard input is closed: by whoever started it, or because that process is dead."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker that runs, and the address at which it listens."""

    servers: str
    process: "subprocess.Popen[bytes]"

    def stop(self) -> None:
        """End it. Raises TimeoutExpired when it does not."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process.wait(_STOP)


def jars_found(spark: SparkSession, package: str = PACKAGE) -> list[str]:
    """The jars of a package, which Ivy finds as it does for a session. Skips the test when it does not."""
    jvm: Any = spark._jvm
    maven = getattr(getattr(jvm.org.apache.spark.util, "MavenUtils$"), "MODULE$")
    none = getattr(getattr(jvm.scala, "None$"), "MODULE$")
    quiet = jvm.java.io.PrintStream(jvm.java.io.OutputStream.nullOutputStream())
    exclusions = getattr(maven, "resolveMavenCoordinates$default$5")()
    try:
        settings = maven.buildIvySettings(none, none, True, quiet)
        found = maven.resolveMavenCoordinates(package, settings, none, True, exclusions, False, quiet)
    except Py4JJavaError as error:
        pytest.skip(f"{package} cannot be resolved: {error.java_exception}")
    return str(found.mkString(",")).split(",")


def classpath(jars: Sequence[str]) -> str:
    """The jars that Ivy found for a session, and Spark's own for what they leave out."""
    own = sorted(glob.glob(str(Path(pyspark.__file__).parent / "jars" / "*.jar")))
    kept = [jar for jar in own if Path(jar).name.startswith(("scala-library", "slf4j-api", "jackson-"))]
    return os.pathsep.join((*jars, *kept))


@contextmanager
def broker(folder: Path, jars: Sequence[str]) -> Iterator[Broker]:
    """Start a broker that keeps its records in a folder, and stop it."""
    listens, controls = _free_ports(2)
    servers = f"127.0.0.1:{listens}"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "server.properties"
    settings.write_text(_PROPERTIES.format(servers=servers, controller=f"127.0.0.1:{controls}", logs=folder / "logs"))
    java = [str(find_java().command), "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath(jars)]
    identity = ["-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(settings)]
    subprocess.run(
        [*java, "kafka.tools.StorageTool", "format", *identity], check=True, capture_output=True, timeout=_START
    )
    with (folder / "broker.log").open("wb") as log:
        command = ["sh", "-c", _GUARD, "sh", *java, "kafka.Kafka", str(settings)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True)
    running = Broker(servers, process)
    try:
        _wait_for(listens, process, folder / "broker.log")
        yield running
    finally:
        running.stop()


def _free_ports(n: int) -> list[int]:
    """Ports below those that a system gives to whoever asks for any. Spark waits at such a one for the client that fetches a result: who
    looks there for a broker, which is not up yet or not any more, would be taken for it."""
    found = list[int]()
    for port in random.sample(range(20_000, 32_768), 100):
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == n:
            return found
    raise AssertionError("a hundred ports are taken")


def _wait_for(port: int, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + _START
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"the broker did not start: {log.read_text()[-2000:]}")


_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{controller}
listeners=PLAINTEXT://{servers},CONTROLLER://{controller}
advertised.listeners=PLAINTEXT://{servers}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={logs}
num.partitions=1
auto.create.topics.enable=false
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
offsets.topic.num.partitions=1
transaction.state.log.num.partitions=1
"""
