"""One job of bench/spark, run by the interpreter that has pyspark.

    spark_job.py make|sort|join|checkpoint|verify FOLDER ROWS

The last line that it prints is JSON: the seconds of the job, and sums over its results, which do
not depend on the order of rows.
"""
import json
import sys
import time

from pyspark.sql import SparkSession, Window
from pyspark.sql import functions as f

GROUPS = 10_000
PARTITIONS = 8  # so few that a part is larger than an executor's memory for sorting


def session(folder):
    return (SparkSession.builder.master("local-cluster[2,1,1024]").appName("lazyfs")
            .config("spark.executor.memory", "1g").config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.sql.shuffle.partitions", PARTITIONS)
            .config("spark.sql.files.maxPartitionBytes", 1 << 30)
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .getOrCreate())


def content(table):
    """The number of rows and the sum of their hashes, as text."""
    row = table.select(f.count("*").alias("count"), f.sum(
        f.xxhash64(*table.columns).cast("decimal(38,0)")).alias("sum")).first()
    return f"{row['count']}:{row['sum']}"


def make(spark, folder, rows):
    numbers = spark.range(0, rows, 1, PARTITIONS)
    table = numbers.select("id", f.xxhash64("id").alias("key"), f.concat(
        f.md5(f.col("id").cast("string")),
        f.md5((f.col("id") + rows).cast("string"))).alias("text"))
    table.write.mode("overwrite").parquet(f"{folder}/rows")
    return {"rows": content(spark.read.parquet(f"{folder}/rows"))}


def sort(spark, folder, _):
    spark.read.parquet(f"{folder}/rows").sort("key").write.mode("overwrite").parquet(
        f"{folder}/sorted")
    table = spark.read.parquet(f"{folder}/sorted")
    placed = table.select("key", f.input_file_name().alias("file"),
                          f.monotonically_increasing_id().alias("place"))
    before = f.lag("key").over(Window.partitionBy("file").orderBy("place"))
    disorder = placed.withColumn("before", before).where("before > key").count()
    ends = placed.groupBy("file").agg(f.min("key").alias("low"),
                                      f.max("key").alias("high")).orderBy("file").collect()
    disorder += sum(a["high"] > b["low"] for a, b in zip(ends, ends[1:]))
    return {"rows": content(table), "disorder": disorder}


def totals(spark, folder):
    """Joins the rows with a table of groups, and adds them up by group."""
    groups = spark.range(GROUPS).select(f.col("id").alias("group"),
                                        f.sha1(f.col("id").cast("string")).alias("name"))
    table = spark.read.parquet(f"{folder}/rows").withColumn("group",
                                                            f.pmod("key", f.lit(GROUPS)))
    joined = table.join(groups.hint("merge"), "group")  # a sorted merge shuffles both sides
    return joined.groupBy("group", "name").agg(
        f.count("*").alias("rows"), f.sum("id").alias("ids"), f.max("text").alias("last"))


def join(spark, folder, _):
    totals(spark, folder).write.mode("overwrite").parquet(f"{folder}/totals")
    return {"sums": content(spark.read.parquet(f"{folder}/totals"))}


def checkpoint(spark, folder, _):
    spark.sparkContext.setCheckpointDir(f"{folder}/checkpoints")
    found = totals(spark, folder)
    for _round in range(3):
        found = found.repartition(PARTITIONS, "group").checkpoint()
    return {"sums": content(found)}


def verify(spark, folder, _):
    return {"rows": content(spark.read.parquet(f"{folder}/rows")),
            "sorted": content(spark.read.parquet(f"{folder}/sorted")),
            "sums": content(spark.read.parquet(f"{folder}/totals"))}


def main():
    name, folder, rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    spark = session(folder)
    began = time.monotonic()
    found = {"make": make, "sort": sort, "join": join, "checkpoint": checkpoint,
             "verify": verify}[name](spark, folder, rows)
    found["seconds"] = round(time.monotonic() - began, 2)
    spark.stop()
    print(json.dumps(found))


main()
