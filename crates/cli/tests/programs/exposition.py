"""Reads metrics as Prometheus's client does. Prints the number of samples.

    python3 exposition.py FILE DATABASE
"""

import sys

from prometheus_client.parser import text_string_to_metric_families

file, database = sys.argv[1:]
samples = 0
names = set()
with open(file) as metrics:
    for family in text_string_to_metric_families(metrics.read()):
        assert family.name.startswith("litefoot_"), family.name
        assert family.type in ("counter", "gauge"), (family.name, family.type)
        assert family.documentation, family.name
        assert family.name not in names, f"{family.name} comes twice"
        names.add(family.name)
        for sample in family.samples:
            assert sample.labels["database"] == database, sample
            assert sample.name.endswith("_total") == (family.type == "counter"), sample
            assert sample.value >= 0, sample
            samples += 1
assert samples > 2, names
print(samples)
