"""``python -m studies.benchmarks [--quick] [--output FILE.json] [--page FILE.md]``."""

import argparse
import os
import shlex
import sys

from studies.benchmarks import ENVIRONMENT


def main() -> int:
    """Run the benchmarks, or draw the page of earlier results."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.benchmarks", description="Measure the engine and its rivals on one thread."
    )
    parser.add_argument("--quick", action="store_true", help="less than a minute, with less certain numbers")
    parser.add_argument("--output", metavar="FILE.json", help="write the results to this file")
    parser.add_argument("--page", metavar="FILE.md", help="write the table of results into this page")
    parser.add_argument(
        "--from", dest="earlier", metavar="FILE.json", help="run nothing: make the page of these results"
    )
    options = parser.parse_args()
    os.environ.update(ENVIRONMENT)  # before NumPy is imported below

    from studies.benchmarks.engine import FULL, QUICK, run, write
    from studies.benchmarks.page import read, update_page

    if options.earlier:
        results = read(options.earlier)
    else:
        arguments = shlex.join(argument for argument in sys.argv[1:])
        results = run(QUICK if options.quick else FULL, f"python -m studies.benchmarks {arguments}".strip())
    if options.output:
        write(results, options.output)
    if options.page:
        update_page(options.page, results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
