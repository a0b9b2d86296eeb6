"""A picture of speed: transitions per second against cores, replicas and features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["draw"]


def draw(threads: dict[str, Any], gpu: dict[str, Any], path: Path) -> None:
    """Draw what was measured on all cores and on a GPU."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (cores, replicas, features) = plt.subplots(1, 3, figsize=(11, 4.6), sharey=True, layout="constrained")
    for case in threads["cases"]:
        if "without" not in case["name"]:
            rate = case["transitions per second"]
            cores.plot(threads["threads"], [rate[str(k)] for k in threads["threads"]], marker="o", ms=3,
                       label=case["name"].removesuffix(", with its checks"))  # fmt: skip
    cores.set(xlabel="cores", ylabel="transitions per second, with checks", xticks=threads["threads"])
    for axes, name, fixed in ((replicas, "B", "p"), (features, "p", "B")):
        constant = 64 if fixed == "p" else 200
        shapes = {shape[name]: shape for shape in gpu["by shape"] if shape[fixed] == constant}
        for where, label in (("device", gpu["machine"]["device"]), ("host", f"{gpu['machine']['cores']} cores")):
            axes.plot(sorted(shapes), [shapes[k][where] for k in sorted(shapes)], marker="o", ms=3, label=label)
        what = "replicas, with 64 features" if name == "B" else "features, with 200 replicas"
        axes.set(xlabel=what)
    for axes in (cores, replicas, features):
        axes.set_xscale("log", base=2 if axes is cores else 10)
        axes.set_yscale("log")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.16), frameon=False)
    cores.set_xticks(threads["threads"], [str(k) for k in threads["threads"]])
    figure.savefig(path, dpi=130)
    plt.close(figure)
