"""Studies: the same function of many seeds, by any executor."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from inferl.evaluation.watching import progress_bar
from inferl.scale.executors import as_executor, completed

__all__ = ["study"]

Seed = TypeVar("Seed")
Found = TypeVar("Found")


def study(
    function: Callable[[Seed], Found], seeds: Iterable[Seed], executor: Any = None, *, progress: bool | None = None
) -> list[Found]:
    """Compute a function of each seed, and return the results in the order of the seeds.

    For coverage studies, and for shards of the replicas of a bootstrap, which `inferl.concatenate` joins. The function
    should depend on its seed alone: then neither the executor nor a worker that is killed changes a result.

    Parameters
    ----------
    function
        One that other processes can import: of a module, not a lambda; or a `functools.partial` of one.
    seeds
        Its arguments: seeds, first replicas, settings.
    executor
        As for `Plan.evaluate`.
    progress
        Whether to show how far it is. Default: on a terminal and in a notebook.

    Examples
    --------
    >>> study(abs, [-3, 1, -2], executor=2)
    [3, 1, 2]

    Two shards of the replicas of a bootstrap, each of which reads the whole log, and the evaluator of all replicas::

        def shard(first):
            method = inferl.OnlineBootstrap(inferl.Polynomial(5.0), n_replicas=500, first_replica=first)
            return inferl.Evaluator(inferl.TD(16), method).update(inferl.sources.table("log.parquet", ...))


        evaluator = inferl.concatenate(inferl.scale.study(shard, [0, 500]))
    """
    todo = list(seeds)
    found: dict[int, Any] = {}
    team, close = as_executor(executor)
    try:
        with progress_bar("study", progress) as show:
            for i, future in completed(team, function, [(seed,) for seed in todo]):
                found[i] = future.result()
                if show is not None:
                    show(f"{len(found):,} of {len(todo):,}", len(found), len(todo))
    finally:
        close()
    return [found[i] for i in range(len(todo))]
