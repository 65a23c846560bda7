"""Two Ray nodes on this machine; a line on standard input kills the second one, its end all. Prints the address."""

from __future__ import annotations

import sys

from ray.cluster_utils import Cluster

cluster = Cluster(
    initialize_head=True,
    head_node_args={
        "num_cpus": 1,
        "include_dashboard": False,
        "object_store_memory": 200 << 20,
        "_system_config": {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000},
    },
)
second = cluster.add_node(num_cpus=1, object_store_memory=200 << 20)
cluster.wait_for_nodes()
sys.stdout.write(f"{cluster.address}\n")
sys.stdout.flush()
for _ in sys.stdin:
    cluster.remove_node(second, allow_graceful=False)
    sys.stdout.write("killed\n")
    sys.stdout.flush()
cluster.shutdown()
