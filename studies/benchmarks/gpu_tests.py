"""The tests of the torch backend on a GPU, and a record of the last run: commit, device, date, counts.

python -m studies.benchmarks.gpu_tests [--output FILE.json]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import torch

from studies.benchmarks.machine import describe
from studies.provenance import command_line

ROOT = Path(__file__).parents[2]
RESULT = ROOT / "studies" / "benchmarks" / "results" / "test_gpu.json"
TESTS = ("tests/engine/test_torch.py", "tests/sources/test_tensors.py")


def main() -> None:
    """Run the tests, and write what was counted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", metavar="FILE.json", type=Path, default=RESULT)
    asked = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("torch finds no GPU here")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    print(done.stdout[-3000:])
    counts = {
        what: int(n) for n, what in re.findall(r"(\d+) (passed|failed|skipped|error)", done.stdout.splitlines()[-1])
    }
    machine = describe(command_line()) | {"device": torch.cuda.get_device_name(), "torch": torch.__version__}
    asked.output.write_text(json.dumps({"machine": machine, "tests": counts}, indent=1) + "\n")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
