"""Made-up reports of `abw bench`, as long as real ones: what is measured is no matter of their tables."""

from __future__ import annotations

from typing import Any

WORKLOADS = ("BiLSTM-Tagger-withchar", "TreeLSTM-2Type")
MODULES = {
    "ablation": "whole.ablation",
    "blas": "executors.blas",
    "cold": "whole.cold",
    "cost": "executors.cost",
    "cpu": "executors.cpu",
    "e2e": "whole.e2e",
    "engine": "whole.engine",
    "epoch": "whole.epoch",
    "fig7": "graphs.fig7",
    "graph": "graphs.graph",
    "growth": "growth.growth",
    "launch": "executors.launch",
    "layout": "graphs.layout",
    "libraries": "libraries.forward",
    "memory": "whole.memory",
    "models": "whole.models",
    "one": "whole.one",
    "operations": "executors.operations",
    "paper": "whole.paper",
    "passes": "executors.passes",
    "peers": "whole.peers",
    "policies": "graphs.policies",
    "precision": "executors.precision",
    "programs": "growth.programs",
    "reading": "whole.reading",
    "serve": "serving.serve",
    "steps": "whole.steps",
    "torch": "executors.trained",
    "threads": "whole.threads",
    "train": "whole.training",
}
"""Where in `abw.bench` the function `bench_NAME` of each is."""

POLICIES = ("depth", "agenda", "sufficient", "critical", "fsm base", "fsm sort", "fsm critical")
PRESETS = ("vanilla-dynet", "cavs-dynet", "ed-batch", "abw")


def _steps(*names: str) -> dict[str, float]:
    return {name: 1.234e-3 * (i + 1) for i, name in enumerate(names)}


def _learned(encodings: tuple[str, ...]) -> dict[str, Any]:
    return {
        e: {"batches": 286.0 + i, "trials": 1000, "states": 1514, "seconds": 0.0654 * (i + 1)}
        for i, e in enumerate(encodings)
    }


def _sizes() -> list[dict[str, Any]]:
    return [
        {
            "batch": batch,
            "mini_batches": 4,
            "lower_bound": 1433,
            "policies": [{"policy": name, "batches": 1878 + i} for i, name in enumerate(POLICIES)],
        }
        for batch in (1, 8, 32, 64, 128, 256)
    ]


_OVERHEAD = {
    "overhead": {"round": 276e-9, "node": 18e-9},
    "scores": [{"words": 8192, "seconds": {"argmax": 0.07e-9, "sample": 0.09e-9}}],
    "whole": [
        {
            "model": "treelstm-attend", "hidden": 256, "batch": 64, "nodes": 54085,
            "seconds": _steps("read", "names", "kernels", "beside"),
        }
    ],
    "decoding": [
        {
            "hidden": 256, "words": 8192, "batch": 64, "tokens": 12345, "seconds": 1.27, "torch_seconds": 4.2,
            "jax_seconds": 5.2, "whole_seconds": 1.5, "limit": 0.6, "masked_limit": 0.7,
        }
    ],
    "beams": [
        {
            "hidden": 64, "words": 256, "batch": 1, "tokens": 12345, "seconds": 0.127, "whole_seconds": 0.15,
            "limit": 0.1,
        }
    ],
    "parsing": [
        {
            "hidden": 256, "batch": 64, "actions": 3338, "seconds": 0.0377, "torch_seconds": 0.12,
            "two_seconds": 0.02, "whole_seconds": 0.04,
        }
    ],
    "published": [
        {
            "model": "Berxit", "size": "BERT base", "batch": 64, "nodes": 123456, "seconds": 23.4,
            "dynet_seconds": None, "acrobat_seconds": 0.205,
        }
    ],
}  # fmt: skip

REPORTS: dict[str, dict[str, Any]] = {
    "ablation": {
        "rows": [
            {
                "workload": WORKLOADS[0], "hidden": 128, "batch": 64, "executor": executor,
                "policy": "agenda-static", "layout": layout, "hoist": hoist, "fuse": not hoist,
                "batches": 522, "memory_kernels": 1308, "bytes_moved": 12345678,
                "seconds": _steps("schedule", "execute"), "instances_per_second": 12345.0, "speedup": 3.74,
            }
            for executor, layout, hoist in (("blas", "declared", False), ("cpu", "planned", True))
        ]
    },
    "blas": {
        "rows": [
            {"hidden": 64, "blas_ms": 3.21, "torch_split_ms": 5.4, "torch_dense_ms": 4.1, "ratio": 1.24},
            {"hidden": 256, "blas_ms": 32.1, "torch_split_ms": 54.0, "torch_dense_ms": 41.0, "ratio": 1.13},
        ]
    },
    "cold": {
        "rows": [
            {"caches": caches, "seconds": seconds, "cpu_seconds": 2 * seconds}
            for caches, seconds in (("cold", 6.4), ("warm", 0.8))
        ],
        "compiles": [{"function": "abw.core.graph.construct._all_the_nodes", "seconds": 1.234}],
        "compiled": 123,
        "compile_seconds": 12.34,
    },
    "cost": {
        "types": [{"type": "internal-hoisted", "launch": 1.2e-6, "row": 345e-9, "error": 0.05}],
        "rows": [
            {"policy": "sufficient", "cost": cost, "batches": 6, "predicted": 1.2e-3, "measured": 1.3e-3}
            for cost in (True, False)
        ],
    },
    "cpu": {
        "rows": [
            {
                "model": "LatticeLSTM", "hidden": 512, "batch": 64, "threads": 2, "seconds": 0.166,
                "share_of_peak": 0.87, "allowed_share": allowed,
                "instances_per_second": 385.5, "torch_seconds": 0.27, "blas_seconds": blas,
            }
            for blas, allowed in ((0.36, 0.95), (None, None))
        ],
        "peak_gflops": 117.0,
        "target": "avx512",
    },
    "precision": {
        "rows": [
            {
                "model": "LatticeLSTM", "hidden": 512, "batch": 64, "precision": p, "seconds": 0.067,
                "speed": 3.94, "packed_bytes": 12_345_678, "error": 0.0123, "torch_seconds": theirs,
                "torch_speed": theirs and 3.21,
            }
            for p, theirs in (("float32", 0.12), ("int8", None))
        ],
        "instructions": {"bf16": False, "int8": True},
    },
    "e2e": {
        "rows": [
            {
                "model": name, "batch": 256, "nodes": 30645, "outside": 0.051,
                "seconds": _steps("read", "construct", "schedule", "plan", "execute", "outputs"),
            }
            for name in WORKLOADS
        ]
    },
    "engine": {
        "rows": [
            {
                "workers": workers, "seconds": 123e-6 / workers, "driver_cpu": 0.61e-6, "engine_cpu": 1.2e-6,
                "worker_cpu": 118e-6, "start_cpu": 7.8, "driver_bytes": 181_000_000,
            }
            for workers in (1, 2)
        ]
    },
    "epoch": {
        "rows": [
            {
                "hidden": 256, "batch": 64, "seconds": 12.3, "share_of_peak": 0.42,
                "torch_seconds": theirs, "torch_share_of_peak": 0.2,
            }
            for theirs in (31.2, None)
        ]
    },
    "fig7": {"rows": [{"workload": name, "batch_sizes": _sizes()} for name in WORKLOADS]},
    "graph": {
        "rows": [
            {"workload": name, "nodes": 30411, "step": step, "ns_per_node": 23.45}
            for step in ("read, warm", "policy sufficient", "plan")
            for name in WORKLOADS
        ]
    },
    "growth": _OVERHEAD,
    "launch": {
        "rows": [{"executor": "blas", "launch": 20e-6, "operation": 3e-6, "reading": 12e9, "error": 0.12}],
        "types": [
            {
                "executor": "blas", "workload": WORKLOADS[0], "hidden": 512, "type": "internal-hoisted",
                "weights_bytes": 10485760, "launch": 20e-6, "row": 3e-6,
            }
        ],
    },
    "layout": {
        "boundaries": [
            {
                "workload": name, "batches": 593, "before": {"kernels": 1308, "bytes": 12345678},
                "after": {"kernels": 0, "bytes": 0},
            }
            for name in WORKLOADS
        ],
        "planted": [
            {
                "variables": 400, "noise": 0.25, "programs": 20, "cost": 123456.0, "planted": 134567.0,
                "reached": 20, "proven": 13, "seconds": 1.23,
            }
        ],
    },
    "libraries": {
        "rows": [
            {
                "hidden": 128, "name": name, "per_second": 11_123.0 / times,
                "made_per_second": 9_349.0 / times,
                "times": times, "made_times": times, "difference": 1e-7 * (times > 1),
            }
            for name, times in (("abw", 1.0), ("PyTorch by hand", 4.04), ("DGL", 11.55), ("TorchFold", 4.6))
        ],
        "versions": {"torch": "2.13.0+cpu", "dgl": "1.1.3"},
    },
    "memory": {
        "rows": [
            {
                "workload": name, "hidden": 512, "nodes": 30645, "weights_bytes": 12345678,
                "memory": memory, "predicted_bytes": 234567890, "peak_memory_bytes": 230000000,
            }
            for name, memory in zip(WORKLOADS, ({"mini_batch_bytes": 100663296}, None), strict=True)
        ]
    },
    "models": {
        "batch": 64,
        "rows": [
            {
                "model": "set-transformer", "hidden": 256, "instances": 256, "abw_seconds": 0.123,
                "seconds": _steps("construct", "schedule", "plan", "execute"), "max_error": error,
                "torch": {
                    way: {
                        "compute_seconds": 0.2, "compute_over_abw": 1.46,
                        "batch_and_compute_seconds": 0.3, "batch_and_compute_over_abw": 2.12,
                    }
                    for way in (("index_add", "embedding_bag") if error else ())
                },
            }
            for error in (1.1e-6, None)
        ],
    },
    "operations": {
        "rows": [
            {
                "expression": "layernorm(x, g, b)", "abw_ns": 0.22, "of_tanh": 2.12, "numpy_ns": 1.261,
                "torch_ns": torch, "error": 4.3e-7,
            }
            for torch in (0.39, None)
        ]
    },
    "paper": {
        "fig7": [{"workload": WORKLOADS[0], "batch_sizes": _sizes()}],
        "fig6": [
            {
                "workload": name, "hidden": 512, "instances_per_second": dict.fromkeys(PRESETS, 12345.0),
                "at_batch": dict.fromkeys(PRESETS, 256), "ed_batch_over_cavs": 1.35,
                "abw_over_cavs": 2.8, "paper_over_cavs": over,
            }
            for name, over in zip(WORKLOADS, (None, "1.32 to 2.97 x"), strict=True)
        ],
        "fig9": [
            {
                "workload": WORKLOADS[0],
                "seconds": dict.fromkeys(PRESETS, _steps("construct", "schedule", "plan", "execute")),
            }
        ],
        "table2": [
            {
                "name": "TreeLSTM-Leaf", "latency_us": {"declared": 123.4, "planned": 98.7},
                "before": {"kernels": 13, "bytes": 65536}, "after": {"kernels": 1, "bytes": 4096},
                "inputs": {"kernels": 1, "bytes": 4096}, "planning_ms": 1.23,
                "paper": {
                    "latency_ms": (0.2, 0.1), "kernels": (4.0, 2.0), "kilobytes": (26.0, 13.0),
                    "planning_ms": 9.6,
                },
            }
        ],
        "table3": [
            {
                "workload": "TreeLSTM", "batch": 20, "hidden": 512,
                "milliseconds": {"ed-batch": 33.3, "abw": 22.5},
                "paper_milliseconds": {"cortex": 19.2, "ed-batch": 4.8},
            }
        ],
        "table4": [
            {
                "workload": name, "training_nodes": 11614, "paper": paper,
                "learning": _learned(("base", "max", "sort", "critical")),
            }
            for name, paper in zip(WORKLOADS, (None, (6.268, 1000)), strict=True)
        ],
        "table6": [
            {"inputs_per_second": {"abw": 735.0, "ed-batch": 527.0}, "paper": {"ED-Batch": 1163, "Cavs": 480}}
        ],
    },
    "passes": {
        "rows": [
            {
                "workload": name, "hidden": 256, "mini_batches": 4, "batch": 64, "threads": 2,
                "passes": ["fuse", "group"], "launches": 12345, "kernels": 54321,
                "seconds": _steps("construct", "schedule", "plan", "execute"), "gain": 0.97,
                "execute_gain": 1.02,
            }
            for name in WORKLOADS
        ]
    },
    "peers": {
        "rows": [
            {
                "workload": name, "threads": threads, "instances_per_second": 11800.0,
                "share_of_limit": 0.83, "seconds": _steps("construct", "schedule", "plan", "execute"),
                "peers": {"vanilla": 4047.0, "cavs": 4787.0, "ed-batch": 4713.0},
            }
            for name, threads in zip(WORKLOADS, (1, 2), strict=True)
        ],
        "peak_gflops": 117.0,
    },
    "policies": {
        "granularity": "cell",
        "rows": [
            {
                "workload": name, "nodes": 21951.0, "lower_bound": 358.0,
                "batches": dict.fromkeys(POLICIES, 469.5), "training_nodes": 11614,
                "training_lower_bound": 286, "learning": _learned(("base", "max", "sort", "critical")),
                "paper": paper,
            }
            for name, paper in zip(WORKLOADS, (None, (6.268, 1000)), strict=True)
        ],
    },
    "programs": {
        "recording": {
            "call": 133e-9, "python": 569e-9, "empty": 30e-9, "ask": 1.9e-6, "yielded": 1e-6, "round": 9.4e-6
        },
        "trees": {
            "trees": 64.0, "nodes": 4924.0, **_steps("recorded", "python", "run", "kernels")
        },
        "parsing": [
            {"hidden": 256, "actions": 3338, "rounds": 123, "plain": 0.09, "yielding": 0.0816, **torch}
            for torch in ({"torch": 0.177}, {})
        ],
        "beams": [
            {"hidden": 256, "batch": 64, "sentences": 64, "words": 12345, "plain": 0.09, **torch}
            for torch in ({"torch": 0.177}, {})
        ],
    },
    "reading": {
        "rows": [{"format": "JSON sentences", "values": 1234567, "ns_per_value": 61.2}]
    },
    "serve": {
        "rows": [
            {
                "engine": "abw, batched across requests",
                "full": {"per_second": 432.1, "p50": 0.115, "p99": 0.296},
                "calm": {"p50": 0.0115, "p99": 0.0296}, "http_cpu": 35e-5, "engine_cpu": 27e-5, "failed": 1,
            }
        ],
        "memory": {"requests": 101818, "before_bytes": 342000000, "after_bytes": 342000000},
    },
    "steps": {
        "rows": [
            {
                "model": name, "hidden": hidden, "batch": 64, "seconds": 0.0823,
                "times": {"2": 1.81, "4": 3.2}, "same": {"2": True, "4": True},
            }
            for name in ("sst", "ner")
            for hidden in (64, 256)
        ]
    },
    "torch": {
        "rows": [
            {
                "model": "TreeLSTM", "hidden": 256, "per_instance_per_second": 297.0,
                "batched_per_second": 1241.0, "abw_per_second": 2615.0, "max_error": 1.8e-7, **hoisted,
            }
            for hoisted in ({}, {"abw_hoist_per_second": 2715.0})
        ]
    },
    "one": {
        "rows": [
            {"nodes": 37, "trees": 100, "p50": 187e-6, "p90": 220e-6, "kernels": 78e-6},
        ]
    },
    "threads": {
        "rows": [
            {
                "model": name, "batch": batch, "seconds": 0.1234,
                "times": {"2": 1.85, "4": 3.61}, "limit": {"2": 1.95, "4": 3.8},
                "busy": {"2": 1.04, "4": 2.5},
            }
            for name in ("LatticeLSTM", "BiLSTM-Tagger")
            for batch in (64, 8)
        ]
    },
    "train": {
        "torch": "2.13.0+cpu",
        "rows": [
            {
                "hidden": 256,
                **{f"{part}_seconds": 0.057 for part in ("passes", "weights", "update", "step")},
                "share_of_peak": 0.89, "instances_per_second": 1234.5, "torch_seconds": 0.248,
                "torch_share_of_peak": 0.3, "dgl_seconds": None, "dgl_share_of_peak": None,
                "torchfold_seconds": 0.31, "torchfold_share_of_peak": 0.2,
            }
        ],
    },
}  # fmt: skip
