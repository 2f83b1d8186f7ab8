"""A Spark cluster of processes on 127.0.0.1: a master and workers, bounded in memory, ended by their process ids."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Cluster:
    def __init__(self, home, workers=2, memory="700m", folder=None):
        # A time limit ends a test by this signal: as an exception, it ends the cluster too.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
        self.home = home
        self.own = None if folder else tempfile.TemporaryDirectory(prefix="cutrace-spark-")
        self.folder = pathlib.Path(folder or self.own.name)
        self.port = free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1",
                            "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_DIRS": str(self.folder / "local"),
                            "SPARK_WORKER_DIR": str(self.folder / "work")}
        self.master = self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(self.port),
                                  "--webui-port", "0")
        self._wait(self.master, "master", "I have been elected leader")
        self.workers = []
        for number in range(workers):
            name = f"worker{number}"
            worker = self._start(name, "org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", memory,
                                 "--webui-port", "0", self.url)
            self.workers.append((name, worker))
        for name, worker in self.workers:
            self._wait(worker, name, "Successfully registered with master")

    def _start(self, name, *words):
        log = open(self.folder / f"{name}.log", "w")
        # A group of its own: an executor is a worker's child.
        return subprocess.Popen([f"{self.home}/bin/spark-class", *words], stdout=log, stderr=log, env=self.environment, start_new_session=True,
                                cwd=self.folder)

    def log(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _wait(self, process, name, words, seconds=90):
        until = time.time() + seconds
        while words not in self.log(name):
            if process.poll() is not None or time.time() > until:
                text = self.log(name)
                self.stop()
                raise SystemExit(f"{name} did not start: {text[-2000:]}")
            time.sleep(0.2)

    def settings(self, memory="512m"):
        words = []
        for setting in (f"spark.executor.memory={memory}", "spark.driver.memory=768m", "spark.driver.host=127.0.0.1",
                        "spark.driver.bindAddress=127.0.0.1", "spark.ui.enabled=false", "spark.sql.shuffle.partitions=4",
                        f"spark.local.dir={self.folder}/local"):
            words += ["--conf", setting]
        return words

    def kill(self, number):
        """Ends a worker and its executors at once, as a machine that is gone."""
        _, worker = self.workers[number]
        os.killpg(worker.pid, signal.SIGKILL)
        worker.wait()

    def executors(self):
        """How many executors each worker has started."""
        return [len(re.findall(r"Asked to launch executor", self.log(name))) for name, _ in self.workers]

    def stop(self):
        for process in [worker for _, worker in getattr(self, "workers", [])] + [self.master]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if self.own:
            self.own.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
