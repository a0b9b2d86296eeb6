"""What each extra brings, how large it is and under which licences: `python -m release.extras`, or `make extras`.

pip resolves each extra with the versions of constraints.txt and installs nothing; sizes are those of the files that it
would download. The result is in `release/extras.json`, and docs/extras.md is written from it. Licences that are not on
the list below are refused, unless the extra that brings them is known for it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse
from urllib.request import Request, urlopen

from release.wheels import ROOT, environment, run
from studies.markdown import count, listed, table
from studies.pages import render
from studies.provenance import origin, provenance

__all__ = ["ALLOWED", "IN_A_FILE", "KNOWN", "chosen", "collect", "licence", "page", "refused", "requirements", "result"]

RESULT = Path(__file__).parent / "extras.json"
PAGE = ROOT / "docs" / "extras.md"
DEVELOPMENT = ("test", "test-all", "lint", "docs", "bench", "validity")
USE = {
    "gym": "environments of Gymnasium: `evaluate_policy`, `rollout`",
    "data": "Parquet, Arrow, CSV and JSON lines; Minari's data sets",
    "remote": "logs at URIs that pyarrow has no filesystem for",
    "fit": "propensities that are fitted to a log; classifiers",
    "kafka": "a Kafka topic as a log",
    "redis": "a Redis stream as a log",
    "serve": "the service and its live page",
    "plot": "pictures",
    "report": "the HTML page of `inferl report`",
    "atari": "Atari games (ale-py is GPL-2.0)",
    "ray": "plans on a Ray cluster",
    "torch": "networks as features or policies, and GPUs",
    "tensorboard": "intervals in TensorBoard",
    "wandb": "intervals in Weights & Biases",
    "mlflow": "intervals in MLflow",
    "hub": "model cards of the Hugging Face Hub",
    "sb3": "models and the `EvalCallback` for Stable-Baselines3",
    "all": "all of the above, but no torch and what needs it, no Ray and no trackers",
    "test": "`make test`",
    "test-all": "`make test-all`",
    "lint": "`make lint`, `make types`, `make imports`",
    "docs": "`make docs`",
    "bench": "`make bench`",
    "validity": "`make validity`",
}

# Licences that ask for no more than a notice, or for the source of changed files (MPL).
ALLOWED = {
    *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSD", "BSL-1.0", "CC0-1.0", "HPND", "ISC", "MIT"),
    *("MIT-0", "MIT-CMU", "MPL-2.0", "PSF-2.0", "Python-2.0", "Unlicense", "Zlib", "CNRI-Python", "LLVM-exception"),
}
# Copyleft that is known, and the extras that may bring it.
KNOWN = {
    "ale-py": ("GPL-2.0", {"atari", "all", "test-all"}),
    "pygame-ce": ("LGPL-2.1", {"validity"}),
}
# The licence that is in the package but not in its metadata.
IN_A_FILE = {"torchrl": "MIT"}
# Old ways to name a licence: in a classifier or in the field of free text.
NAMES = {
    r"apache": "Apache-2.0",
    r"mozilla|mpl": "MPL-2.0",
    r"general public|gpl": "GPL",
    r"python software foundation|\bpsf\b": "PSF-2.0",
    r"bsd.3|3.clause|new bsd|modified bsd": "BSD-3-Clause",
    r"bsd.2|2.clause": "BSD-2-Clause",
    r"\bbsd\b": "BSD",
    r"\bmit\b|expat": "MIT",
    r"zlib": "Zlib",
    r"isc": "ISC",
    r"hpnd": "HPND",
    r"unlicense": "Unlicense",
}


def requirements(name: str) -> list[str]:
    """Return what an extra asks for, with what the extras in it ask for; of "", the package itself.

    >>> requirements("plot")
    ['matplotlib>=3.8']
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = []
    for line in project["optional-dependencies"][name] if name else project["dependencies"]:
        own = re.fullmatch(r"inferl\[(.*)\]", line)
        found += [one for inner in own[1].split(",") for one in requirements(inner)] if own else [line]
    return list(dict.fromkeys(found))


def licence(metadata: Mapping[str, Any]) -> str:
    """Return the licence that a package names, as an SPDX expression where it can be told.

    >>> licence({"license_expression": "MIT"}), licence({"classifier": ["License :: OSI Approved :: BSD License"]})
    ('MIT', 'BSD')
    >>> licence({"license": "Apache License, Version 2.0"}), licence({})
    ('Apache-2.0', 'unknown')
    """
    if metadata.get("license_expression"):
        return str(metadata["license_expression"])
    said = [line for line in metadata.get("classifier", []) if line.startswith("License ::") and "Approved" in line]
    texts = [line.rpartition(" :: ")[2] for line in said] or [(metadata.get("license") or "")[:300]]
    found = {next((spdx for old, spdx in NAMES.items() if re.search(old, text.lower())), "unknown") for text in texts}
    return " OR ".join(sorted(found))


def refused(packages: Iterable[Mapping[str, Any]], extra: str) -> list[str]:
    """Return packages whose licence is neither allowed nor known of the extra.

    Of an expression with OR, one part suffices; of one with AND, all parts count.

    >>> refused([{"name": "a", "licence": "MIT OR GPL-2.0"}, {"name": "b", "licence": "MIT AND GPL-2.0"}], "gym")
    ['b: MIT AND GPL-2.0']
    """
    return [
        f"{one['name']}: {one['licence']}"
        for one in packages
        if not chosen(one["licence"]) <= ALLOWED and extra not in KNOWN.get(one["name"].lower(), ("", set()))[1]
    ]


def chosen(expression: str) -> set[str]:
    """Return the licences that apply; where one may choose, the first choice of which all are allowed.

    >>> sorted(chosen("GPL-2.0 OR (MIT AND BSD)")), sorted(chosen("GPL-2.0 OR LGPL-2.1"))
    (['BSD', 'MIT'], ['GPL-2.0'])
    """
    choices = re.split(r"\s+OR\s+", expression.replace("(", "").replace(")", ""))
    sets = [set(re.split(r"\s+(?:AND|WITH)\s+", choice)) for choice in choices]
    return next((one for one in sets if one <= ALLOWED), sets[0])


def collect() -> dict[str, Any]:
    """Ask pip what each extra brings beyond the package itself."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    made = provenance(None, "python -m release.extras", packages=("inferl",))
    with tempfile.TemporaryDirectory() as folder:
        commands = environment(sys.executable, Path(folder) / "pip", "pip>=25")
        core = resolved(commands, requirements(""), Path(folder))
        ours = {one["name"] for one in core}
        found = {}
        for name in extras:
            whole = resolved(commands, [*requirements(""), *requirements(name)], Path(folder))
            found[name] = [one for one in whole if one["name"] not in ours]
            print(f"{name}: {len(found[name])} packages")
    return {"made": made, "core": core, "extras": found}


def resolved(commands: Path, wanted: list[str], folder: Path) -> list[dict[str, Any]]:
    """Return the packages that pip would install into an empty environment."""
    report = folder / "report.json"
    run(commands / "python", "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed", "--report", report,
        "-c", ROOT / "constraints.txt", *wanted)  # fmt: skip
    installed = json.loads(report.read_text())["install"]
    packages = [
        {
            "name": one["metadata"]["name"],
            "version": one["metadata"]["version"],
            "licence": IN_A_FILE.get(one["metadata"]["name"]) or licence(one["metadata"]),
            "bytes": size(one["download_info"]["url"]),
        }
        for one in installed
    ]
    return sorted(packages, key=lambda one: str(one["name"]).lower())


def size(url: str) -> int:
    """Return the length of a file that pip would take, on this machine or elsewhere."""
    where = urlparse(url)
    if where.scheme == "file":
        return Path(unquote(where.path)).stat().st_size
    with urlopen(Request(url, method="HEAD")) as answer:
        return int(answer.headers["Content-Length"])


def page(found: Mapping[str, Any]) -> str:
    """Write the page of extras."""
    extras = found["extras"]

    def rows(names: Iterable[str]) -> list[list[str]]:
        return [
            [f"`{name}`", USE[name], str(len(extras[name])), megabytes(extras[name]), licences(extras[name])]
            for name in names
        ]

    head = ("extra", "for", "packages", "MB", "licences")
    words = ("extra", "for", "licences")
    packages = {one["name"].lower(): one for some in (found["core"], *extras.values()) for one in some}
    users = {
        name: [extra for extra in extras if any(one["name"].lower() == name for one in extras[extra])]
        for name in packages
    }
    core = {one["name"].lower() for one in found["core"]}
    brought = [
        [one["name"], one["version"], one["licence"], "inferl itself" if name in core else ", ".join(users[name])]
        for name, one in sorted(packages.items())
    ]
    return render(
        "extras",
        origin=origin(found["made"]),
        python=found["made"]["python"],
        core_size=megabytes(found["core"]),
        core_names=listed([re.split("[<>=]", line)[0] for line in requirements("")]),
        core_count=len(found["core"]),
        use=table(head, rows(name for name in extras if name not in DEVELOPMENT), words),
        development=table(head, rows(name for name in extras if name in DEVELOPMENT), words),
        packages=table(
            ("package", "version", "licence", "extras"), brought, ("package", "version", "licence", "extras")
        ),
        known=[f"{name} ({spdx}: {', '.join(sorted(of))})" for name, (spdx, of) in sorted(KNOWN.items())],
    )


def megabytes(packages: Iterable[Mapping[str, Any]]) -> str:
    """Return a size in MB."""
    whole = sum(one["bytes"] for one in packages) / 1e6
    return count(round(whole)) if whole >= 10 else f"{whole:.1f}"


def result() -> dict[str, Any]:
    """Return the last result."""
    found: dict[str, Any] = json.loads(RESULT.read_text())
    return found


def licences(packages: Iterable[Mapping[str, Any]]) -> str:
    """Return the licences of packages, each once."""
    return ", ".join(sorted(set[str]().union(*(chosen(one["licence"]) for one in packages)))) or "-"


def main() -> None:
    """Ask pip, check the licences, and write the page; with ``--page``, write the page alone."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--page", action="store_true", help="write the page from the last result")
    if not parser.parse_args().page:
        RESULT.write_text(json.dumps(collect(), indent=1) + "\n")
    found = result()
    PAGE.write_text(page(found))
    wrong = [
        line for name, packages in {"": found["core"], **found["extras"]}.items() for line in refused(packages, name)
    ]
    if wrong:
        sys.exit("licences that are not on the list: " + ", ".join(sorted(set(wrong))))


if __name__ == "__main__":
    main()
