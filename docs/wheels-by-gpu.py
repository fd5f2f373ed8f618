#!/usr/bin/env python3
"""Writes a table of wheels and GPUs: wheels-by-gpu.py TABLE.csv DIRECTORY-OR-LIST [ADDRESS OF A DASK SCHEDULER]"""
import csv, pathlib, sys
import offload_bundle
from dask.distributed import Client

def served(wheel):
    try:
        [file] = offload_bundle.inspect(wheel).files
        return {"wheel": wheel, **{gpu.gpu: f"{gpu.serving} of {gpu.bundles}" for gpu in file.coverage or ()}}
    except offload_bundle.Error as error:
        return {"wheel": wheel, "error": str(error)}

if __name__ == "__main__":
    table, source, *scheduler = sys.argv[1:]
    source = pathlib.Path(source)
    wheels = sorted(map(str, source.rglob("*.whl"))) if source.is_dir() else source.read_text().splitlines()
    with Client(*scheduler) as client, open(table, "w", newline="") as file:
        rows = client.gather(client.map(served, wheels))
        gpus = sorted(set().union(*rows) - {"wheel", "error"})
        out = csv.DictWriter(file, ["wheel", *gpus, "error"])
        out.writeheader()
        out.writerows(rows)
