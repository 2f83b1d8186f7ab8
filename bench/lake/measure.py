"""What a command takes, and a lake asked by DuckDB and by Spark: shared by bench/lake/run and bench/lake/query."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

root = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(root / "tests" / "lake"))
from rows import difference  # noqa: E402, F401
from spark_cluster import Cluster  # noqa: E402


class Measured(NamedTuple):
    printed: str
    wall: float  # seconds
    cpu: float  # seconds, its children's included
    memory: float  # MiB at most


def measured(*words):
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([str(word) for word in words], stdout=subprocess.PIPE, stderr=said, text=True)
        printed = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        wall = time.monotonic() - began
        if status:
            said.seek(0)
            raise SystemExit(f"{' '.join(map(str, words))[:300]}: {status}: {said.read()[-3000:]}")
    return Measured(printed, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


def find_duckdb():
    """The program, for this process and those it starts."""
    os.environ["DUCKDB"] = os.environ.get("DUCKDB") or _set_up("setup-duckdb")
    return os.environ["DUCKDB"]


def _set_up(script):
    return subprocess.run([root / "scripts" / script], check=True, capture_output=True, text=True).stdout.strip()


def ask_duckdb(cutrace, query, lake):
    took = measured(cutrace, "query", "--print=json", query, lake)
    return json.loads(took.printed or "[]"), took


class Spark:
    """A cluster with two workers of a core each; `memory` is each executor's."""

    def __init__(self, memory):
        home = os.environ["SPARK_HOME"] = os.environ.get("SPARK_HOME") or _set_up("setup-spark")
        self.memory = memory
        self.cluster = Cluster(home, memory=f"{int(memory.rstrip('g')) + 1}g")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cluster.stop()

    def ask(self, cutrace, query, lake):
        """Its rows, what it took, the tasks' CPU seconds and the rows they read."""
        with tempfile.TemporaryDirectory() as log:
            settings = [*self.cluster.settings(self.memory), "--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir=file:{log}",
                        "--conf", "spark.eventLog.compress=false"]
            took = measured(cutrace, "query", "--spark", self.cluster.url, *settings, "--print=json", query, lake)
            rows = [json.loads(line) for line in took.printed.splitlines() if line.startswith("{")]
            return rows, took, *_tasks(pathlib.Path(log))


def _tasks(log):
    cpu = read = 0
    for path in log.rglob("*"):
        if not path.is_file() or "appstatus" in path.name:
            continue
        for line in path.read_text(errors="replace").splitlines():
            if '"SparkListenerTaskEnd"' in line:
                metrics = json.loads(line).get("Task Metrics") or {}
                read += metrics.get("Input Metrics", {}).get("Records Read", 0)
                cpu += metrics.get("Executor CPU Time", 0) / 1e9
    return cpu, read
