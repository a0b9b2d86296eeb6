"""One GPU: the torch backend beside a JAX scan, torch step by step, and the matrix products that it cannot do without.

    python -m studies.benchmarks.gpu [--output studies/benchmarks/results/gpu.json]

Vectors are on the device before the clock starts. A time is that of `Evaluator.update` by the clock on the wall, with
all that a user's call does: checking, finding the place of each row in time, fingerprints, and the copy of rewards and
discounts from the host. Medians of `ROUNDS`, one competitor after the other in one process.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from importlib import util
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import torch

from inferl.algorithms import TD, DoublyRobust
from inferl.data.transitions import Transitions
from inferl.evaluator import Evaluator
from inferl.methods.bootstrap import OnlineBootstrap
from inferl.methods.least_squares import LeastSquares
from studies.benchmarks.machine import describe
from studies.benchmarks.problems import STEP_SIZE, dense_problem
from studies.benchmarks.rivals import HIGH, LOW, JaxScan
from studies.provenance import command_line

ROUNDS = 5
DEVICE = "cuda"
LONG = 2**27
REPLICAS = (50, 100, 200, 500, 1000, 2000, 5000, 10_000)
FEATURES = (8, 16, 32, 64, 128, 256, 512, 1024)
EXAMPLE = Path(__file__).parents[2] / "examples" / "gpu_cartpole.py"


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the median time of a call, the device's work included; the first call is not timed."""
    work()
    found = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = perf_counter()
        work()
        torch.cuda.synchronize()
        found.append(perf_counter() - begin)
    return median(found)


def chunk(n: int, p: int) -> Transitions:
    """Transitions with vectors on the device; an episode ends every 50 steps or so."""
    random = torch.Generator(DEVICE).manual_seed(0)
    phi = torch.randn((n + 1, p), dtype=torch.float64, device=DEVICE, generator=random) / p**0.5
    rng = np.random.default_rng(0)
    discounts = np.where(rng.random(n) < 0.02, 0.0, 0.9)
    return Transitions(phi[:-1], rng.normal(size=n), phi[1:], discounts)


def bootstrap(p: int, replicas: int, n: int, checks: bool) -> dict[str, Any]:
    """The online bootstrap, and what its matrix products alone would take."""
    data = chunk(n, p)
    method = OnlineBootstrap(STEP_SIZE, n_replicas=replicas, companion=checks)
    evaluator = Evaluator(TD(p), method, backend="torch", device=DEVICE).update(data)
    rate = n / seconds(lambda: evaluator.update(data))
    said = "with its checks" if checks else "without checks"
    return {"name": f"bootstrap, p = {p}, B = {replicas}, {said}", "rate": rate, "products": products(p, replicas)}


def products(p: int, replicas: int, rows: int = 128, chunks: int = 50) -> float:
    """Transitions per second of the products of chunks of 128 rows alone: residuals, and the update of both halves."""
    shapes = (rows, p), (p, 2 * replicas + 2), (rows, 2 * replicas + 2)
    vectors, both, steps = (torch.randn(shape, dtype=torch.float64, device=DEVICE) for shape in shapes)
    out = torch.empty((rows, replicas + 1), dtype=torch.float64, device=DEVICE)

    def work() -> None:
        for _ in range(chunks):
            torch.mm(vectors, both[:, : replicas + 1], out=out)
            both.addmm_(vectors.T, steps, beta=0.5, alpha=1e-3)

    work()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return rows * chunks / seconds(graph.replay)


def eager(p: int, replicas: int, n: int = 2000) -> float:
    """Transitions per second of the same step in torch, one transition after the other."""
    data = chunk(n, p)
    phi, phi_next = data.features.tensor, data.next_features.tensor  # type: ignore[union-attr]
    rewards, discounts = data.rewards.tolist(), data.discounts.tolist()
    alpha = STEP_SIZE(np.arange(1, n + 1), np.ones(n)).tolist()
    theta = torch.zeros((replicas, p), dtype=torch.float64, device=DEVICE)
    bar = torch.zeros_like(theta)

    def work() -> None:
        for t in range(n):
            multiplier = LOW + (HIGH - LOW) * torch.rand(replicas, dtype=torch.float64, device=DEVICE)
            error = rewards[t] + theta @ (discounts[t] * phi_next[t] - phi[t])
            theta.addr_(alpha[t] * multiplier * error, phi[t])
            bar.lerp_(theta, 2.0 / (t + 2))

    return n / seconds(work, 1)


def scan(p: int, replicas: int, n: int = 4096) -> float | None:
    """Transitions per second of the step as the body of a JAX scan on the same device; None without JAX."""
    try:
        jax = JaxScan(replicas)
    except ImportError:
        return None
    columns = jax.prepare(dense_problem(n, p))
    return n / seconds(lambda: jax(columns), 3)


def least_squares(p: int, n: int, value: bool) -> dict[str, Any]:
    """Least squares with its block sums, from 4 chunks to `LONG` transitions: the ends of epochs are part of it."""
    data = chunk(n, p)
    algorithm = DoublyRobust(p) if value else TD(p)
    method = LeastSquares("episode" if value else "dyadic")
    evaluator = Evaluator(algorithm, method, backend="torch", device=DEVICE)
    for _ in range(4):
        evaluator.update(data)
    torch.cuda.synchronize()
    begin, before = perf_counter(), evaluator.n
    while evaluator.n < LONG:
        evaluator.update(data)
    torch.cuda.synchronize()
    rate = (evaluator.n - before) / (perf_counter() - begin)
    name = f"{'the value' if value else 'least squares'}, p = {p}"
    return {"name": name, "rate": rate, "floating-point operations": 4.0 * p**2 * rate}


def by_shape() -> list[dict[str, float]]:
    """The bootstrap with its checks for many numbers of replicas and features, here and on the cores of the host."""
    found = []
    shapes = [(64, replicas) for replicas in REPLICAS] + [(p, 200) for p in FEATURES]
    for p, replicas in shapes:
        device = bootstrap(p, replicas, 2**17, True)["rate"]
        data = dense_problem(2**14, p).transitions
        evaluator = Evaluator(TD(p), OnlineBootstrap(STEP_SIZE, n_replicas=replicas))
        host = len(data) / seconds(partial(evaluator.update, data), 3)
        found.append({"p": p, "B": replicas, "device": device, "host": host})
    return found


def end_to_end() -> dict[str, Any]:
    """The example: a simulator, a policy and features on the device, and an interval after every 100 steps."""
    spec = util.spec_from_file_location("gpu_cartpole", EXAMPLE)
    assert spec is not None and spec.loader is not None
    example = util.module_from_spec(spec)
    spec.loader.exec_module(example)
    from inferl.sources import tensor

    features = example.Features().to(DEVICE)
    evaluator = Evaluator(DoublyRobust(64), backend="torch", device=DEVICE)
    found, begin, interval = [], perf_counter(), None
    for rollout in tensor(example.rollouts(12), features, discount=0.99):
        interval = evaluator.update(rollout).interval()
        found.append((len(rollout), perf_counter() - begin))
        begin = perf_counter()
    alone = seconds(lambda: [features(r["observations"].reshape(-1, 4)) for r in example.rollouts(1)], 3)
    rate = median(n / time for n, time in found[2:])
    return {
        "name": f"CartPole, {example.ENVIRONMENTS:,} environments, 64 features, an interval every 100 steps",
        "rate": rate,
        "simulator and features alone": found[0][0] / alone,
        "interval": str(interval),
    }


def peaks() -> dict[str, float]:
    """What the device can do: a large product in float64, and a copy, bytes read and written."""
    a, b = (torch.randn((8192, 8192), dtype=torch.float64, device=DEVICE) for _ in range(2))
    out = torch.empty_like(a)
    product = 2 * 8192.0**3 / seconds(lambda: torch.mm(a, b, out=out))
    x = torch.randn(2**29, dtype=torch.float64, device=DEVICE)
    y = torch.empty_like(x)
    return {"float64 operations per second": product, "bytes per second": 16.0 * 2**29 / seconds(lambda: y.copy_(x))}


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", metavar="FILE.json", type=Path)
    asked = parser.parse_args()
    machine = describe(command_line()) | {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    results: dict[str, Any] = {"machine": machine, "peaks": peaks(), "cases": []}

    def keep(cases: list[dict[str, Any]]) -> None:
        """Write what is known so far: a machine may be taken away before the last case."""
        results["cases"] += cases
        print(cases, flush=True)
        if asked.output is not None:
            asked.output.write_text(json.dumps(results, indent=1) + "\n")

    shapes = ((64, 200, 2**18), (512, 200, 2**17), (512, 10_000, 2**15))
    for p, replicas, n in shapes:
        rivals = {"jax": scan(p, replicas), "eager": eager(p, replicas)}
        keep([bootstrap(p, replicas, n, checks) | rivals for checks in (True, False)])
    for p, n in ((64, 2**21), (512, 2**19)):
        keep([least_squares(p, n, value) for value in (False, True)])
    keep([end_to_end()])
    results["by shape"] = by_shape()
    print(results["by shape"], flush=True)
    keep([])


if __name__ == "__main__":
    main()
