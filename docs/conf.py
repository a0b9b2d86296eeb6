"""How Sphinx builds the documentation: `make docs`."""

from __future__ import annotations

from importlib.metadata import version as installed
from pathlib import Path
from shutil import copyfile
from typing import Any

project = "inferl"
author = "The inferl authors"
version = release = installed("inferl")

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "sphinx_copybutton"]
exclude_patterns = ["_build"]
default_role = "py:obj"

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

# The tutorial is the notebook of the examples, which is committed without outputs: they are made here.
copyfile(Path(__file__).parents[1] / "examples" / "notebook.ipynb", Path(__file__).with_name("tutorial.ipynb"))
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_execution_in_temp = True

# Examples are copied without their prompts and without what they print.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# `make docs` installs neither it nor torch; its classes are bases of ours.
autodoc_mock_imports = ["stable_baselines3"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # they make the signatures of numerical functions hard to read
autosummary_generate = False  # the pages of docs/api are written by hand
toc_object_entries_show_parents = "hide"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

# Pages of the repository's root that are shown on the site, too, and what they are called there.
FROM_THE_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CODE_OF_CONDUCT.md": "conduct.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security-policy.md",
}

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"  # an interval
html_title = f"inferl {release}"
html_copy_source = False
html_show_copyright = False
html_math_renderer = "mathml"


def relink(app: Any, path: Path, parent: str, text: list[str]) -> None:
    """Turn the links of a page from the root, which are relative to the root, into links within docs/."""
    for there, here in {**FROM_THE_ROOT, "docs/": ""}.items():
        text[0] = text[0].replace(f"]({there}", f"]({here}")


def for_users(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Leave out where to begin in the code of a package, which its docstring tells those who read the code."""
    if what == "module":
        paragraphs = "\n".join(lines).split("\n\n")
        kept = [paragraph for paragraph in paragraphs if not paragraph.startswith("Begin with")]
        lines[:] = "\n\n".join(kept).split("\n")


def setup(app: Any) -> None:
    """Write formulas as MathML, which browsers draw themselves, and end examples without an empty line."""
    from docutils.nodes import SkipNode, Text, literal_block
    from docutils.utils.math import MathError
    from docutils.utils.math.latex2mathml import tex2mathml
    from sphinx.util.logging import getLogger

    def writer(as_block: bool) -> Any:
        def write(translator: Any, node: Any) -> None:
            try:
                translator.body.append(tex2mathml(node.astext(), as_block))
            except MathError as error:
                getLogger(__name__).warning("%s: %s", error, node.astext(), location=node)
            raise SkipNode

        return write

    def trim(_: Any, page: Any) -> None:
        for block in page.findall(literal_block):  # a doctest ends with an empty line
            block.rawsource = block.astext().rstrip("\n")
            block[:] = [Text(block.rawsource)]

    app.connect("doctree-read", trim)
    app.connect("include-read", relink)
    app.connect("autodoc-process-docstring", for_users)
    app.add_html_math_renderer("mathml", (writer(False), None), (writer(True), None))
