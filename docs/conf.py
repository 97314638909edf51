"""Sphinx configuration. Build: python -m sphinx -W --keep-going -b html docs docs/_build/html."""

from __future__ import annotations

import warnings
from importlib.metadata import version as installed_version

project = "widemargin"
author = "the widemargin developers"
copyright = "2026, the widemargin developers"
release = version = installed_version("widemargin")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "**/GALLERY_HEADER.rst"]
html_theme = "pydata_sphinx_theme"
html_title = "widemargin"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
}
# Pages without subpages: they have no navigation sidebar.
PAGES = (
    "index",
    "install",
    "report",
    "playground",
    "which_machine",
    "coming_from_sklearn",
    "certificate",
    "leave_one_out",
    "adaptive_margins",
    "ordinal",
    "gaussian_processes",
    "gp_regression",
    "margins_and_bounds",
    "large_data",
    "reliability",
    "command_line",
    "how_it_is_built",
    "contribute_a_machine",
    "literature",
    "references",
)
html_sidebars = {page: [] for page in PAGES}

autosummary_generate = True
autodoc_typehints = "none"  # the numpydoc sections already give the types
numpydoc_show_class_members = False  # the class template already lists them
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "download_all_examples": False,
}

# The gallery examples call plt.show(), which warns because the build has no display.
warnings.filterwarnings("ignore", message=".*FigureCanvasAgg is non-interactive.*")


def skip_inherited_from_scikit_learn(app, what, name, obj, skip, options):
    """Skip members inherited from scikit-learn: they are documented there."""
    owner = getattr(obj, "__module__", None) or ""
    generated = name.startswith("set_") and name.endswith("_request")
    if owner.startswith("sklearn.") or generated:
        return True
    return skip


def setup(app):
    """Register the filter of inherited members with Sphinx."""
    app.connect("autodoc-skip-member", skip_inherited_from_scikit_learn)
