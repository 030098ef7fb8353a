"""The documentation's site: ``make docs``."""

import os
import sys
from importlib.metadata import metadata
from pathlib import Path

import fedcof

# A notebook calls fedcof as its reader does.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

project = "fedcof"
author = metadata("fedcof")["Author"] or "The fedcof developers"
copyright = author  # noqa: A001
release = version = fedcof.__version__

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary"]
exclude_patterns = ["_build"]

# A link to a page or a heading that is not there, or a docstring that cannot be read, is a warning,
# and `make docs` fails on warnings.
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say them with shapes and units
autodoc_member_order = "bysource"
autodoc_default_options = {  # without those that scikit-learn adds
    "exclude-members": "set_fit_request, set_partial_fit_request, set_score_request"
}
numpydoc_show_class_members = False
default_role = "py:obj"

# Nothing is fetched, neither by the build nor by a reader's browser.
html_theme = "pydata_sphinx_theme"
html_theme_options = {"navigation_with_keys": False, "show_toc_level": 2}
html_title = f"fedcof {version}"
