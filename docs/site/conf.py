"""How Sphinx builds the site."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from graphcollab import __version__

project, author, version = "graphcollab", "graphcollab contributors", __version__
OURS = ["mathml", "reading", "references"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", *OURS]

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
default_role = "py:obj"

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_inherit_docstrings = False
autodoc_typehints_format = "short"
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_custom_sections = ["Shapes"]
python_maximum_signature_line_length = 150

html_theme = "furo"
html_title = f"graphcollab {__version__}"
html_copy_source = False
html_show_copyright = html_show_sphinx = False
html_show_search_summary = False  # it is read from the pages found, which browsers refuse for files
html_static_path = ["static"]
html_css_files = ["site.css"]

# Names of other libraries: where these are documented is not known without a network.
OTHERS = "torch|torch_geometric|numpy|pandas|scipy|networkx|matplotlib|collections|pathlib|os|types|contextlib|logging"
nitpick_ignore_regex = [("py:.*", rf"({OTHERS})\..+|Tensor|Path|P")]
