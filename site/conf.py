"""Settings of Sphinx for the site; ``python -m tools.site`` builds it."""

import re

from course import __version__
from tools import address
from tools.site.interfaces import plain_kernels

_ADDRESS = address.read()

project = "Fast GPU code from Python"
version = release = __version__
copyright = "the course's authors: code MIT, prose and figures CC BY 4.0"
language = "en"
extensions = [
    "myst_nb",
    "sphinx_design",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "tools.site.links_to_terms",
]
exclude_patterns = ["downloads"]

# what solutions keep is shown; nothing is executed
nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the docstrings give shapes and types
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]
# types are words, such as "array of float32 (rows, cols)": no links by chance
napoleon_use_param = napoleon_use_rtype = False
default_role = "code"
add_module_names = False

html_theme = "sphinx_book_theme"
html_title = project
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_use_index = html_domain_indices = False  # the search finds names
html_theme_options = {
    "repository_url": _ADDRESS.url,
    "use_repository_button": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "max_navbar_depth": 1,
    "navbar_persistent": [],  # the search stands in the sidebar
    "home_page_in_toc": True,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}


def _keep_bars(app, what, name, value, options, lines):
    """Let |x| in a docstring stay an absolute value."""
    lines[:] = [re.sub(r"(``.*?``)|\|", lambda bar: bar[1] or r"\|", line) for line in lines]


def setup(app):
    """Let autodoc see kernels as the functions that they are, and docstrings as they are meant."""
    plain_kernels()
    app.connect("autodoc-process-docstring", _keep_bars)
