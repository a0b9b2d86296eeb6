"""Every place that names the version, and whether they agree: `python -m release.version v0.2.0`.

With a tag, it must name the same version. `.github/workflows/release.yml` asks before it builds anything.
"""

from __future__ import annotations

import argparse
import re
import sys

from release.wheels import ROOT

__all__ = ["PLACES", "disagreement", "places"]

# Where the version is written, and how.
PLACES = {
    "pyproject.toml": r'^version = "(.+)"$',
    "src/inferl/__init__.py": r'^__version__ = "(.+)"$',
    "CITATION.cff": r"^version: (.+)$",
    "docs/citing.md": r"^  version = \{(.+)\},$",
    "CHANGELOG.md": r"^## \[(\d.*)\] - ",  # the latest comes first
}


def places() -> dict[str, str]:
    """Return the version that each place names; "none" where it names none."""
    found = {path: re.search(form, (ROOT / path).read_text(), re.MULTILINE) for path, form in PLACES.items()}
    return {path: match[1] if match else "none" for path, match in found.items()}


def disagreement(found: dict[str, str], tag: str | None = None) -> str | None:
    """Return what does not agree; None: all do.

    >>> disagreement({"a": "1.0", "b": "1.0"}, "v1.0")
    >>> disagreement({"a": "1.0", "b": "1.0"}, "v1.1")
    'the tag v1.1 and the version do not agree: a 1.0, b 1.0'
    >>> disagreement({"a": "1.0", "b": "1.1"})
    'the places do not agree: a 1.0, b 1.1'
    """
    said = ", ".join(f"{place} {version}" for place, version in found.items())
    if len(set(found.values())) != 1:
        return f"the places do not agree: {said}"
    if tag is not None and tag not in {f"v{version}" for version in found.values()}:
        return f"the tag {tag} and the version do not agree: {said}"
    return None


def main() -> None:
    """Print the version, or exit with what does not agree."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tag", nargs="?", help="a tag, as v1.2.3")
    found = places()
    if why := disagreement(found, parser.parse_args().tag):
        sys.exit(why)
    print(found["pyproject.toml"])


if __name__ == "__main__":
    main()
