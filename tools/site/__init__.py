"""The site: lessons to read, a glossary, the packages' pages, recorded figures; offline, as files.

`lessons` and `figures` write pages into the folder that Sphinx builds from, `links_to_terms` is an
extension of Sphinx, `checking` looks at what came out. ``make site`` runs ``python -m tools.site``.
"""
