"""HDFS and YARN on one machine as a cluster of a master and several workers, for bench/cluster.

Each worker has a loopback address of its own, a DataNode and a NodeManager; both keep all their
files, also containers' local and temporary ones, in the worker's folder. Logs and the NameNode's
files are elsewhere, as in the ShingledFS thesis (section 7.1). Without YARN each job is one process
(Hadoop's LocalJobRunner), which keeps its temporary files in the first worker's folder. All of it
must run in a network namespace of its own, where every port is free.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import time
from xml.sax.saxutils import escape

from comparison.systems import Failed

HADOOP = "org.apache.hadoop"
TERA = f"{HADOOP}.examples.terasort"
NAME_NODE, HISTORY_PORT, MANAGER_PORT, DATA_PORT = "127.0.0.1:20001", 20010, 20020, 20100
SORT = ("terasort", f"{TERA}.TeraSort", "/tera/input", "/tera/sorted")
LOG4J = """log4j.rootLogger=INFO,stderr
log4j.appender.stderr=org.apache.log4j.ConsoleAppender
log4j.appender.stderr.target=System.err
log4j.appender.stderr.layout=org.apache.log4j.PatternLayout
log4j.appender.stderr.layout.ConversionPattern=%d{ISO8601} %p %c{2}: %m%n
"""
# Java 17 closed packages that Hadoop reflects into.
OPENED = ("java.lang", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util",
          "java.util.concurrent", "sun.nio.ch")


def size_of(text):
    """Bytes, of a command line's 1G."""
    number, unit = (text[:-1], text[-1].upper()) if text[-1:].isalpha() else (text, "")
    try:
        return int(float(number) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30,
                                    "T": 1 << 40}[unit])
    except (KeyError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"not a size: {text}") from error


def end(process, seconds):
    """Kills the process if it does not end in time."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Cluster:
    """Runs from start() to stop(). `folders`: one a worker, on the filesystem under test.
    `settings`: {"hdfs": {...}, "mapred": {...}, "yarn": {...}} that differ from those below."""

    def __init__(self, folders, work, jars, reducers=5, has_yarn=True, settings=None):
        self.folders, self.work, self.jars, self.reducers = folders, work, jars, reducers
        self.has_yarn, self.settings = has_yarn, settings or {}
        self.conf, self.logs = work / "conf", work / "logs"
        self.daemons = []  # (name, process)
        self.jvm = [
            "-XX:+IgnoreUnrecognizedVMOptions", "-XX:-UsePerfData", "-XX:+UseSerialGC",
            f"-Djdk.net.hosts.file={self.conf}/hosts", "-Djava.net.preferIPv4Stack=true",
            # A worker's processes get their own values after these.
            "-Dworker.folder=/nonexistent", "-Dworker.name=localhost",
            "-Dworker.address=127.0.0.1", "-Dworker.port=0",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)]

    # ---- configuration -----------------------------------------------------------------------

    def write_configuration(self):
        for folder in ("conf/webapps/hdfs", "conf/webapps/datanode", "logs", "tmp", "cwd"):
            (self.work / folder).mkdir(parents=True, exist_ok=True)
        # The master and clients are 127.0.0.1. HDFS and YARN know workers by their names, so that a
        # task runs where its block is.
        names = [f"127.0.0.{2 + i} node{1 + i}" for i in range(len(self.folders))]
        (self.conf / "hosts").write_text("\n".join(
            ["127.0.0.1 localhost", f"127.0.0.1 {os.uname().nodename}", *names, ""]))
        (self.conf / "log4j.properties").write_text(LOG4J)
        for name, settings in (("core", self.core()), ("hdfs", self.hdfs()),
                               ("mapred", self.mapred()), ("yarn", self.yarn())):
            lines = [f"<property><name>{key}</name><value>{escape(str(value))}</value></property>"
                     for key, value in (settings | self.settings.get(name, {})).items()]
            (self.conf / f"{name}-site.xml").write_text(
                "\n".join(["<configuration>", *lines, "</configuration>", ""]))

    def core(self):
        return {"fs.defaultFS": f"hdfs://{NAME_NODE}", "hadoop.tmp.dir": self.work / "tmp",
                "ipc.client.connect.max.retries": 30}

    # ${worker...} are properties of a worker's processes.
    def hdfs(self):
        return {
            "dfs.replication": 1, "dfs.blocksize": 64 << 20, "dfs.permissions.enabled": "false",
            "dfs.namenode.name.dir": f"file://{self.work}/name",
            "dfs.namenode.rpc-address": NAME_NODE, "dfs.namenode.http-address": "127.0.0.1:0",
            # The NameNode sees all workers come from 127.0.0.1. So it must not compare addresses
            # with names: it distinguishes workers by their ports, and clients connect to their
            # names.
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
            "dfs.client.use.datanode.hostname": "true",
            "dfs.datanode.use.datanode.hostname": "true",
            "dfs.namenode.safemode.extension": 0,
            "dfs.datanode.data.dir": "file://${worker.folder}/data",
            "dfs.datanode.hostname": "${worker.name}",
            "dfs.datanode.address": "${worker.address}:${worker.port}",
            "dfs.datanode.ipc.address": "${worker.address}:0",
            "dfs.datanode.http.address": "${worker.address}:0"}

    # running.map.limit and running.reduce.limit, set to the number of nodes, stand for the slots of
    # the thesis: one map and one reduce a node.
    def mapred(self):
        nodes = len(self.folders)
        settings = {
            "mapreduce.framework.name": "yarn" if self.has_yarn else "local",
            "mapreduce.cluster.local.dir": self.folders[0] / "local",
            "mapreduce.job.maps": nodes,
            "mapreduce.job.reduces": self.reducers,
            "mapreduce.job.running.map.limit": nodes, "mapreduce.job.running.reduce.limit": nodes,
            "mapreduce.map.speculative": "false", "mapreduce.reduce.speculative": "false",
            "mapreduce.terasort.output.replication": 1,
            "mapreduce.client.submit.file.replication": 1,
            "mapreduce.client.progressmonitor.pollinterval": 500,
            "mapreduce.client.completion.pollinterval": 500,
            "mapreduce.application.classpath": f"{self.conf},{self.jars}/*",
            "mapreduce.shuffle.port": 0,
            "yarn.app.mapreduce.am.resource.mb": 512,
            "yarn.app.mapreduce.am.command-opts": f"-Xmx384m {' '.join(self.jvm)}",
            "yarn.app.mapreduce.am.staging-dir": "/staging",
            "mapreduce.jobhistory.address": f"127.0.0.1:{HISTORY_PORT}",
            "mapreduce.jobhistory.admin.address": f"127.0.0.1:{HISTORY_PORT + 1}",
            "mapreduce.jobhistory.webapp.address": "127.0.0.1:0"}
        for task in ("map", "reduce"):
            settings[f"mapreduce.{task}.memory.mb"] = 1024
            settings[f"mapreduce.{task}.java.opts"] = f"-Xmx640m {' '.join(self.jvm)}"
        return settings

    def yarn(self):
        addresses = {
            f"yarn.resourcemanager.{name}": f"127.0.0.1:{MANAGER_PORT + i}" for i, name in
            enumerate(("address", "scheduler.address", "resource-tracker.address",
                       "admin.address", "webapp.address"))}
        disks = "yarn.nodemanager.disk-health-checker"
        return addresses | {
            "yarn.resourcemanager.hostname": "127.0.0.1",
            "yarn.resourcemanager.scheduler.class":
                f"{HADOOP}.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler",
            "yarn.scheduler.minimum-allocation-mb": 512,
            "yarn.nodemanager.hostname": "${worker.name}",
            "yarn.nodemanager.address": "${worker.name}:0",
            "yarn.nodemanager.localizer.address": "${worker.name}:0",
            "yarn.nodemanager.webapp.address": "${worker.name}:0",
            "yarn.nodemanager.aux-services": "mapreduce_shuffle",
            "yarn.nodemanager.local-dirs": "${worker.folder}/local",
            "yarn.nodemanager.log-dirs": f"{self.logs}/containers/${{worker.name}}",
            # Two tasks and the application master.
            "yarn.nodemanager.resource.memory-mb": 2560,
            "yarn.nodemanager.resource.cpu-vcores": 3,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            f"{disks}.max-disk-utilization-per-disk-percentage": 99,
            f"{disks}.min-free-space-per-disk-mb": 0,
            "yarn.application.classpath": f"{self.conf},{self.jars}/*"}

    # ---- processes ---------------------------------------------------------------------------

    def java(self, heap, arguments):
        return ["java", f"-Xmx{heap}", *self.jvm, f"-Djava.io.tmpdir={self.work}/tmp",
                "-cp", f"{self.conf}:{self.jars}/*", *map(str, arguments)]

    def environment(self):
        home = pathlib.Path(shutil.which("java")).resolve().parent.parent
        return {**os.environ, "JAVA_HOME": str(home)}

    def daemon(self, name, *arguments, heap="512m"):
        with open(self.logs / f"{name}.log", "a", encoding="utf-8") as log:
            process = subprocess.Popen(
                self.java(heap, arguments), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.work / "cwd", env=self.environment())
        self.daemons.append((name, process))

    def await_log(self, name, pattern, count, seconds=900):
        """Waits until the daemon's log has `count` lines with `pattern`."""
        log, end = self.logs / f"{name}.log", time.monotonic() + seconds
        process = dict(self.daemons)[name]
        while len(re.findall(pattern, log.read_text(errors="replace"))) < count:
            if process.poll() is not None or time.monotonic() > end:
                raise Failed(f"{name}: gave up waiting for '{pattern}', see {log}")
            time.sleep(0.2)

    def start(self):
        self.write_configuration()
        workers = len(self.folders)
        self.job("format", f"{HADOOP}.hdfs.server.namenode.NameNode", "-format", "-nonInteractive")
        self.daemon("namenode", f"{HADOOP}.hdfs.server.namenode.NameNode")
        self.await_log("namenode", "NameNode RPC up at", 1)
        if self.has_yarn:
            self.daemon("resourcemanager",
                        f"{HADOOP}.yarn.server.resourcemanager.ResourceManager")
            self.daemon("historyserver", f"{HADOOP}.mapreduce.v2.hs.JobHistoryServer", heap="256m")
        for i in range(workers):
            self.start_data_node(i)
            if self.has_yarn:
                self.start_node_manager(i)
        self.await_log("namenode", "Processing first storage report", workers)
        if self.has_yarn:
            self.await_log("resourcemanager", "registered with capability", workers)
            self.await_log("historyserver", "IPC Server listener on", 2)

    def start_data_node(self, i):
        self.daemon(f"datanode{1 + i}", *self.properties_of(i),
                    f"{HADOOP}.hdfs.server.datanode.DataNode", heap="256m")

    def start_node_manager(self, i):
        self.daemon(f"nodemanager{1 + i}", *self.properties_of(i),
                    f"{HADOOP}.yarn.server.nodemanager.NodeManager", heap="256m")

    def properties_of(self, i):
        return [f"-Dworker.folder={self.folders[i]}", f"-Dworker.name=node{1 + i}",
                f"-Dworker.address=127.0.0.{2 + i}", f"-Dworker.port={DATA_PORT + i}"]

    def restart_ended(self):
        """Starts the workers' daemons that have ended, as an operator's systemd does. Returns their
        names."""
        begin = {f"{name}{1 + i}": (start, i) for i in range(len(self.folders))
                 for name, start in (("datanode", self.start_data_node),
                                     ("nodemanager", self.start_node_manager))}
        ended = [name for name, process in dict(self.daemons).items()
                 if name in begin and process.poll() is not None]
        for name in ended:
            start, i = begin[name]
            start(i)
        return ended

    def stop_worker(self, i):
        """Ends both daemons of a worker; its containers end with them."""
        ours = dict(self.daemons)
        for name in (f"nodemanager{1 + i}", f"datanode{1 + i}"):
            end(ours[name], 10)

    def stop(self):
        for _, process in reversed(self.daemons):
            process.terminate()
        for _, process in self.daemons:
            end(process, 30)
        self.daemons.clear()

    def job(self, name, *arguments):
        """Runs a class to its end. Returns its wall time in seconds."""
        begin = time.monotonic()
        self.check_end(name, self.begin_job(name, *arguments))
        return time.monotonic() - begin

    def begin_job(self, name, *arguments, stdin=subprocess.DEVNULL):
        """Its output goes to NAME.out, its errors and log to NAME.log."""
        with open(self.logs / f"{name}.out", "w", encoding="utf-8") as out, \
                open(self.logs / f"{name}.log", "w", encoding="utf-8") as log:
            return subprocess.Popen(self.java("512m", arguments), stdin=stdin, stdout=out,
                                    stderr=log, cwd=self.work / "cwd", env=self.environment())

    def check_end(self, name, process):
        if process.wait() != 0:
            raise Failed(f"{name} failed, see {self.logs}/{name}.log")

    # ---- TeraSort ----------------------------------------------------------------------------

    def generate(self, size_bytes):
        return self.job("teragen", f"{TERA}.TeraGen", size_bytes // 100, "/tera/input")

    def sort(self):
        return self.job(*SORT)

    def begin_sort(self):
        return self.begin_job(*SORT)

    def validate(self):
        """TeraValidate succeeds even if it finds errors. Without errors its report has one record:
        the checksum in hex, whose low 64 bits TeraGen has as a counter (in decimal)."""
        took = self.job("teravalidate", f"{TERA}.TeraValidate", "/tera/sorted", "/tera/report")
        self.job("report", f"{HADOOP}.fs.FsShell", "-cat", "/tera/report/part-r-*")
        report = (self.logs / "report.out").read_text().split()
        want = re.findall(r"CHECKSUM=(\d+)", (self.logs / "teragen.log").read_text())
        if (len(report) != 2 or report[0] != "checksum" or not want
                or int(report[1], 16) % (1 << 64) != int(want[-1])):
            raise Failed(f"not validated, see {self.logs}/report.out")
        return took
