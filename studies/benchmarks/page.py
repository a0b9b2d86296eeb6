"""The pages of results: tables for people, made from the JSON file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from inferl.errors import DataError
from studies.benchmarks.engine import FORMAT
from studies.benchmarks.picture import draw
from studies.markdown import listed, table
from studies.pages import render, replaced
from studies.provenance import software

__all__ = ["in_short", "read", "rendered", "update_page"]

BEGIN, END = "<!-- measured: written by studies.benchmarks -->", "<!-- end of measured -->"
RESULTS = Path(__file__).parent / "results"
GPU_GOALS = {
    "bootstrap, p = 512, B = 200, without checks": 3e6,
    "bootstrap, p = 512, B = 10000, without checks": 0.7e6,
    "least squares, p = 512": 1e7,
    "CartPole": 3e6,
}
OVER_ONE_THREAD = {  # goals for all cores
    "bootstrap, p = 64, B = 200, with its checks": 5,
    "bootstrap, p = 64, B = 200, without checks": 6,
    "bootstrap, p = 512, B = 200, with its checks": 7,
    "bootstrap, p = 512, B = 200, without checks": 9,
    "bootstrap, p = 512, B = 1000, with its checks": 9,
    "bootstrap, p = 512, B = 1000, without checks": 11,
    "least squares, p = 512": 8,
}
SHORT, SHORT_END = "<!-- speed: written by studies.benchmarks -->", "<!-- end of speed -->"


def read(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read results back."""
    results: dict[str, Any] = json.loads(Path(path).read_text())
    if results.get("format") != FORMAT:
        raise DataError(f"{path} has format {results.get('format')!r}, this version reads {FORMAT}; measure again")
    return results


def update_page(path: str | os.PathLike[str], results: dict[str, Any]) -> None:
    """Write the results into a page, between its two marks, all of them or in short; what is around them stays."""
    path = Path(path)
    text = path.read_text() if path.exists() else render("performance", begin=BEGIN, end=END)
    first, last, written = (SHORT, SHORT_END, in_short) if SHORT in text else (BEGIN, END, rendered)
    path.write_text(replaced(text, first, last, written(results)))
    if written is rendered:
        threads, gpu = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("threads", "gpu"))
        pictures = path.with_name("images")
        pictures.mkdir(exist_ok=True)
        draw(threads, gpu, pictures / "performance.png")


def rendered(results: dict[str, Any]) -> str:
    """Write results as Markdown."""
    judged, machine, memory = results["judged"], results["machine"], results["memory"]
    grown = memory["growth in megabytes"].items()
    threads, gpu, tests = (
        json.loads((RESULTS / f"{name}.json").read_text()) for name in ("threads", "gpu", "test_gpu")
    )
    return render(
        "measured",
        machine=machine,
        software=software(machine),
        speeds_table=_speeds(results),
        goals=len(judged),
        missed=sum(not row["met"] for row in judged),
        out_of_reach="; ".join(_out_of_reach(results)),
        goals_table=_goals(results),
        transitions=_count(memory["transitions"]),
        growth=", ".join(f"{name} {megabytes:.2f} MB" for name, megabytes in grown),
        threads=threads,
        threads_software=software(threads["machine"]),
        threads_table=_threads(threads),
        gpu=gpu,
        gpu_software=software(gpu["machine"]),
        gpu_table=_gpu(gpu),
        gpu_goals=_gpu_goals(gpu),
        gpu_tests=tests,
    ).strip()


def in_short(results: dict[str, Any]) -> str:
    """Write the few numbers that a README has room for."""
    rates = [_count(value["transitions per second"]["inferl"], 2) for value in results["value"]]
    features = [str(value["features"]) for value in results["value"]]
    rows = []
    for shape in results["shapes"]:
        if shape["replicas"] == 200 and not shape["name"].startswith("GTD2"):
            states = f"a table of {shape['features']} states"
            name = states if shape["name"].startswith("one-hot") else str(shape["features"])
            over = [_times(shape["over"].get(rival), 2) for rival in ("step", "jax", "naive")]
            bare = _times(shape["over, without checks"]["step"], 2)
            rows.append([name, _count(shape["transitions per second"]["inferl"], 2), *over, bare])
    head = ["features", "transitions/s", "over NumPy", "over JAX", "over the loop", "over NumPy, without checks"]
    return render(
        "speed",
        rates=listed(rates),
        features=listed(features),
        cores=results["machine"]["cores"],
        table=table(head, rows),
    ).strip()


def _speeds(results: dict[str, Any]) -> str:
    head = ["shape", "transitions/s", "over step", "without checks", "over step", "of peak", "at peak", "from arrays"]
    others = {"step as printed": "as printed", "jax": "over JAX", "naive": "over naive", "river": "over river"}
    rows = []
    for shape in results["shapes"]:
        rate, over = shape["transitions per second"], shape["over"]
        bare = _count(rate["inferl without checks"]), _times(shape["over, without checks"]["step"])
        row = [shape["name"], _count(rate["inferl"]), _times(over["step"]), *bare]
        row += [_share(shape["share of peak"]), _times(shape["most over step at peak"])]
        row += [_count(rate["inferl from arrays"])]
        rows.append(row + [_times(over.get(name)) for name in others])
    solved = results["least squares"]
    rate = _count(solved["transitions per second"]["inferl"])
    rows.append([solved["name"], rate, *[""] * 3, _share(solved["share of peak"]), *[""] * 6])
    for value in results["value"]:
        rate = _count(value["transitions per second"]["inferl"])
        rows.append([value["name"], rate, *[""] * 10])
    head += others.values()
    return table(head, rows, text=head)


def _threads(threads: dict[str, Any]) -> str:
    numbers = [str(number) for number in threads["threads"]]
    rows = [
        [
            case["name"],
            *(_count(case["transitions per second"][k]) for k in numbers),
            _times(case["over one thread"]),
            _times(OVER_ONE_THREAD.get(case["name"])),
        ]
        for case in threads["cases"]
    ]
    head = ["threads", *numbers, f"{numbers[-1]} over 1", "goal"]
    return table(head, rows, text=head[:1])


def _gpu(gpu: dict[str, Any]) -> str:
    rows = []
    for case in gpu["cases"]:
        rate, products = case["rate"], case.get("products")
        over = [_times(rate / case[rival]) if case.get(rival) else "" for rival in ("jax", "eager")]
        operations = case.get("floating-point operations")
        if products is not None:
            p, replicas = (int(part.split("=")[1].replace(",", "")) for part in case["name"].split(", ")[1:3])
            operations = 6.0 * p * replicas * rate
        peak = None if operations is None else operations / gpu["peaks"]["float64 operations per second"]
        share = None if products is None else rate / products
        rows.append([case["name"], _count(rate), *over, _share(share), _share(peak)])
    head = ["", "transitions/s", "over JAX", "over torch", "of the products alone", "of peak"]
    return table(head, rows, text=head)


def _gpu_goals(gpu: dict[str, Any]) -> str:
    verdict = {True: "met", False: "**not met**"}
    cases = {case["name"]: case for case in gpu["cases"]}
    rows = []
    for start, goal in GPU_GOALS.items():
        name = next(name for name in cases if name.startswith(start))
        rate = cases[name]["rate"]
        rows.append([f"{name}: transitions/s", _count(rate), f"≥ {_count(goal)}", verdict[rate >= goal]])
        if "jax" in cases[name]:
            over = rate / cases[name]["jax"]
            rows.append([f"{name}: times JAX", _times(over), "≥ x20", verdict[over >= 20]])
        if "10000" in name:
            share = rate / cases[name]["products"]
            rows.append([f"{name}: of the products alone", _share(share), "≥ 60%", verdict[share >= 0.6]])
    head = ["", "measured", "goal", ""]
    return table(head, rows, text=head)


def _goals(results: dict[str, Any]) -> str:
    verdict = {True: "met", False: "**not met**"}
    rows = [[row["name"], row["shown"], row["reach"], verdict[row["met"]]] for row in results["judged"]]
    head = ["", "measured", "goal", ""]
    return table(head, rows, text=head)


def _out_of_reach(results: dict[str, Any]) -> list[str]:
    """Name the ratios that are missed, and that an engine at 100 % of the peak would miss too."""
    return [
        f"{shape['name']} (x{shape['most over step at peak']:.3g} at the peak, goal x{shape['reach']['step']:g})"
        for shape in results["shapes"]
        if (shape["most over step at peak"] or float("inf")) < shape["reach"]["step"]
        and shape["over, without checks"]["step"] < shape["reach"]["step"]
    ]


def _count(number: float, digits: int = 3) -> str:
    return f"{float(f'{number:.{digits}g}'):,.0f}"


def _times(ratio: float | None, digits: int = 3) -> str:
    return "" if ratio is None else f"x{float(f'{ratio:.{digits}g}'):,g}"


def _share(share: float | None) -> str:
    return "" if share is None else f"{share:.0%}"
