"""Run the campaigns of a group, and keep what they counted: `python -m studies.reliability fuzz --inputs 1000`.

Arguments that are not listed go to the campaigns.
"""

from __future__ import annotations

import argparse
import sys

from studies.reliability import page
from studies.reliability.campaigns import GROUPS, campaigns, keep, run


def main() -> None:
    """Run what is asked for; exit with 1 if something was found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("group", choices=[group for group in GROUPS if group != "sanitize"])
    parser.add_argument("--only", action="append", help="the campaign of this name; may be repeated")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--limit", type=float, help="seconds after which a campaign is stopped, and counts as failed")
    asked, arguments = parser.parse_known_args()
    chosen = [one for one in campaigns() if one.group == asked.group and (not asked.only or one.name in asked.only)]
    if not chosen:
        parser.error(f"there is no campaign {asked.only} in {asked.group}")
    failed = []
    for one in chosen:
        print(f"-- {one.name}: {one.tries}", flush=True)
        result = run(one, arguments, asked.seed, asked.limit)
        verdict = "passed" if result["passed"] else "STOPPED at its limit" if result["stopped"] else "FAILED"
        print(f"-- {keep(result)}: {verdict} in {result['seconds']} s", flush=True)
        failed += [] if result["passed"] else [one.name]
    page.main()
    if failed:
        sys.exit(f"found something, or did not end: {', '.join(failed)}")


if __name__ == "__main__":
    main()
