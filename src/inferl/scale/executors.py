"""Executors: who computes the parts; anything with ``submit(function, *args)`` that returns a future.

A future has `result` and `add_done_callback`, as those of `concurrent.futures` and of Dask. Here are two executors that
replace workers which are killed: processes of this machine, and Ray.
"""

from __future__ import annotations

import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import connection, get_context
from queue import SimpleQueue
from typing import Any, Protocol, Self, runtime_checkable

from inferl.data.arrays import is_integer, short
from inferl.engine import cores
from inferl.errors import MissingExtraError, SettingError, WorkerError

__all__ = ["Executor", "Processes", "Ray", "as_executor", "completed", "ray"]

ATTEMPTS = 3  # to compute a task whose worker is killed each time
AHEAD = 64  # tasks that wait for a worker, at least


@runtime_checkable
class Executor(Protocol):
    """What computes tasks.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> isinstance(ThreadPoolExecutor(1), Executor)
    True
    """

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """Begin to compute a function, and return its future."""
        ...


@dataclass
class _Task:
    function: Callable[..., Any]
    args: tuple[Any, ...]
    future: Future[Any]
    attempts: int = 0


@dataclass(eq=False)
class _Worker:
    process: Any
    pipe: Any
    task: _Task | None = None


@dataclass(eq=False)
class Processes:
    """Processes on this machine. If one is killed, another one takes its place and computes its task again.

    Unlike `concurrent.futures.ProcessPoolExecutor`, of which one killed process ends all others and all their tasks.

    Parameters
    ----------
    workers
        Number of processes; default: all cores, or ``OMP_NUM_THREADS``.

    Examples
    --------
    >>> with Processes(2) as pool:
    ...     futures = [pool.submit(pow, 2, k) for k in range(4)]
    ...     [future.result() for future in futures]
    [1, 2, 4, 8]
    """

    workers: int = 0
    _waiting: deque[_Task] = field(default_factory=deque)
    _team: list[_Worker] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None
    _closed: bool = False

    def __post_init__(self) -> None:
        if not is_integer(self.workers) or self.workers < 0:
            raise SettingError(f"workers is {short(self.workers)}; give 1 or more")
        self.workers = self.workers or cores()
        self._context = get_context("spawn")  # a fork would copy locks that other threads hold
        self._ring, self._bell = self._context.Pipe(duplex=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Compute a function in one of the processes."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise SettingError("these processes are closed; make new ones")
            self._waiting.append(_Task(function, args, future))
            if self._thread is None:
                self._thread = threading.Thread(target=self._manage, daemon=True)
                self._thread.start()
        self._bell.send_bytes(b"!")
        return future

    def close(self) -> None:
        """End the processes; what they compute is lost."""
        with self._lock:
            thread, self._closed = self._thread, True
        if thread is not None:
            self._bell.send_bytes(b"!")
            thread.join()

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes that run now."""
        return [worker.process.pid for worker in list(self._team)]

    def _manage(self) -> None:
        """Give tasks to processes, and results to futures; the only thread that talks to the processes."""
        error: Exception | None = None
        try:
            self._serve()
        except Exception as unforeseen:  # such as a machine that starts no more processes; nobody may wait for ever
            error = unforeseen
        for worker in self._team:
            worker.process.kill()
            worker.process.join()
            worker.pipe.close()
        with self._lock:
            self._closed = True
        for task in [*(worker.task for worker in self._team if worker.task is not None), *self._waiting]:
            if not task.future.cancel() and error is not None:
                task.future.set_exception(error)
        self._team.clear()

    def _serve(self) -> None:
        """Work until the processes are to end."""
        while True:
            with self._lock:
                if self._closed:
                    return
            self._assign()
            pipes = {worker.pipe: worker for worker in self._team}
            for ready in connection.wait([self._ring, *pipes]):
                if ready is self._ring:
                    self._ring.recv_bytes()
                else:
                    self._receive(pipes[ready])

    def _assign(self) -> None:
        while self._waiting:
            idle = next((worker for worker in self._team if worker.task is None), None)
            if idle is None:
                if len(self._team) == self.workers:
                    return
                idle = self._start()
            task = self._waiting.popleft()
            if not task.attempts and not task.future.set_running_or_notify_cancel():
                continue
            task.attempts += 1
            idle.task = task
            try:
                idle.pipe.send((task.function, task.args))
            except OSError:  # it was killed while it had nothing to do
                task.attempts -= 1
                self._replace(idle)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                idle.task = None
                task.future.set_exception(
                    SettingError(f"what is computed cannot be sent to another process: {error}; define it in a module")
                )

    def _start(self) -> _Worker:
        mine, its = self._context.Pipe()
        process = self._context.Process(target=_work, args=(its,), daemon=True)
        process.start()
        its.close()
        self._team.append(_Worker(process, mine))
        return self._team[-1]

    def _receive(self, worker: _Worker) -> None:
        try:
            done, value = worker.pipe.recv()
        except (EOFError, OSError):
            return self._replace(worker)
        task, worker.task = worker.task, None
        assert task is not None
        if done:
            task.future.set_result(value)
        else:
            task.future.set_exception(value)

    def _replace(self, worker: _Worker) -> None:
        """Remove a process that was killed; its task waits again, before all others."""
        worker.process.join()
        worker.pipe.close()
        self._team.remove(worker)
        task = worker.task
        if task is not None and task.attempts < ATTEMPTS:
            self._waiting.appendleft(task)
        elif task is not None:
            task.future.set_exception(_lost(worker.process.exitcode))


def _lost(code: int | None) -> WorkerError:
    """Say why a process that was started again and again did not come to its end.

    >>> print(_lost(-9))
    a process was killed 3 times while it computed this (SIGKILL); if it was for want of memory, use fewer workers ...
    """
    if code is not None and code >= 0:
        return WorkerError(
            f"a process ended {ATTEMPTS} times before it had computed this (exit code {code}); a script that starts "
            'processes does so under: if __name__ == "__main__"'
        )
    why = "" if code is None else f" ({signal.Signals(-code).name})"
    return WorkerError(
        f"a process was killed {ATTEMPTS} times while it computed this{why}; if it was for want of memory, use fewer "
        "workers or smaller parts"
    )


def _work(pipe: Any) -> None:
    """Compute what comes through a pipe, until its other end is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process at the other end decides
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            try:
                function, args = pipe.recv()
                answer = (True, function(*args))
            except EOFError:
                raise
            except Exception as error:
                answer = (False, error)
            try:
                pipe.send(answer)
            except (pickle.PicklingError, AttributeError, TypeError):
                kind = type(answer[1]).__name__
                pipe.send((False, WorkerError(f"{kind}: {answer[1]}" if not answer[0] else f"no way to send a {kind}")))


@dataclass(eq=False)
class Ray:
    """A Ray cluster, or one that is started on this machine; made by `ray`."""

    address: str | None = None

    def __post_init__(self) -> None:
        library = _import_ray()
        if not library.is_initialized():
            try:
                library.init(address=self.address, log_to_driver=False)
            except (ConnectionError, ValueError) as error:
                raise SettingError(f"there is no Ray at {self.address or 'hand'}: {error}") from None

    @property
    def workers(self) -> int:
        """Number of cores of the cluster."""
        return max(int(_import_ray().cluster_resources().get("CPU", 1)), 1)

    def submit(self, function: Callable[..., Any], /, *args: Any) -> Future[Any]:
        """Compute a function as a Ray task; Ray computes it again if its worker is killed."""
        library = _import_ray()
        task = library.remote(function).options(max_retries=ATTEMPTS, num_cpus=1).remote(*args)
        future = _RayFuture(task)
        future.set_running_or_notify_cancel()

        def done(inner: Future[Any]) -> None:
            error = inner.exception()
            if error is None:
                future.set_result(inner.result())
            else:  # Ray wraps what a function raised
                future.set_exception(getattr(error, "cause", None) or WorkerError(f"Ray lost this task: {error}"))

        task.future().add_done_callback(done)
        return future


class _RayFuture(Future[Any]):
    """The result of a Ray task, which can be stopped while it runs."""

    def __init__(self, task: Any) -> None:
        super().__init__()
        self.task = task

    def cancel(self) -> bool:
        """Stop the task; its result is then an error."""
        _import_ray().cancel(self.task)
        return True


def ray(address: str | None = None) -> Ray:
    """Return an executor on Ray.

    Parameters
    ----------
    address
        Of a cluster: ``"ray://host:10001"``, or ``"auto"`` for the one that this machine is part of. Default: the
        connection that there is, or the cluster named by ``RAY_ADDRESS``, or a new one on this machine.

    Examples
    --------
    >>> run = plan.evaluate(executor=inferl.scale.ray("ray://head:10001"))  # doctest: +SKIP
    """
    return Ray(address)


def _import_ray() -> Any:
    try:
        import ray as library
    except ImportError:
        raise MissingExtraError("ray", "ray") from None
    return library


def as_executor(given: Any) -> tuple[Executor, Callable[[], None]]:
    """Return the executor that a user asks for, and what to call at the end; an integer is a number of processes."""
    if given is None or is_integer(given):
        pool = Processes(0 if given is None else given)
        return pool, pool.close
    if not isinstance(given, Executor):
        raise SettingError(
            f"executor is {short(given)}; give a number of processes, inferl.scale.ray(), or an object with submit()"
        )
    return given, lambda: None


def completed(
    executor: Executor,
    function: Callable[..., Any],
    tasks: Sequence[tuple[Any, ...]],
    held: Callable[[], int] = lambda: 0,
) -> Iterator[tuple[int, Any]]:
    """Compute a function of all tasks, and yield each number and future, in the order in which they are done.

    Tasks are submitted in their order, a limited number ahead of the first that is not done; `held` says how many
    results are in memory until that one is.
    """
    done: SimpleQueue[tuple[int, Any]] = SimpleQueue()
    ahead = max(AHEAD, 2 * int(getattr(executor, "workers", 0)))
    running: dict[int, Any] = {}
    submitted = 0
    try:
        while submitted < len(tasks) or running:
            while submitted < len(tasks) and (len(running) + held() < ahead or not running):
                number = submitted
                running[number] = executor.submit(function, *tasks[number])
                running[number].add_done_callback(lambda future, number=number: done.put((number, future)))
                submitted += 1
            number, future = done.get()
            del running[number]
            yield number, future
    finally:
        for future in running.values():
            future.cancel()
