"""An extension of Sphinx: a lesson's first use of each term links to the glossary.

The terms are those of ``site/glossary.md``; what has several names is linked once. Code, headings,
links and outputs stay as they are. Of each term the glossary says which lessons use it, or where
none does, which pages of interfaces; one that nothing uses is a warning. Formulas become MathML,
which browsers draw themselves, without a script.
"""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

GLOSSARY = "glossary"
LESSONS, INTERFACES = "lessons/", "interfaces/"
MOST_USERS = 5  # pages that are listed below a meaning
_APART = (
    nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.raw, nodes.math,
    nodes.math_block, nodes.comment,
)  # fmt: skip
_log = logging.getLogger(__name__)

Term = tuple[str, ...]  # all names of one entry, in the glossary's order


def setup(app: Sphinx) -> dict[str, bool]:
    """Tell Sphinx what to call when."""
    app.connect("env-updated", _find_uses)
    app.connect("doctree-resolved", _link)
    app.add_html_math_renderer("mathml", (_inline, None), (_displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


# --- terms ---------------------------------------------------------------------------------------


def names_and_places(glossary: nodes.document) -> dict[Term, str]:
    """Return the glossary's entries, each with the id of its place."""
    found = {}
    for entry in glossary.findall(nodes.definition_list_item):
        terms = [each for each in entry.children if isinstance(each, nodes.term)]
        found[tuple(each.astext() for each in terms)] = terms[0]["ids"][0]
    return found


def pattern(name: str) -> str:
    """Return what a name looks like in a text: of a word without capitals any form, and a plural.

    >>> re.fullmatch(pattern("memory bank"), "Memory banks") is not None
    True
    """
    words = re.escape(name).replace(r"\ ", r"\s+")
    if name.endswith("y") and name.islower():
        words = rf"{words[:-1]}(?:y|ies)"
    else:
        words += "(?:s|es)?"
    return words if re.search("[A-Z]", name) else f"(?i:{words})"


def _search(terms: list[Term]) -> tuple[re.Pattern, list[Term]]:
    """Return one pattern for all names, the longest first, and the entry of each of its groups."""
    names = sorted(((name, term) for term in terms for name in term), key=lambda n: -len(n[0]))
    either = "|".join(f"({pattern(name)})" for name, _ in names)
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])"), [term for _, term in names]


def _uses(document: nodes.document, terms: list[Term]):
    """Yield each first use of a term: the entry, its text node, where in it it begins and ends."""
    search, entries = _search(terms)
    seen: set[Term] = set()
    for text in list(document.findall(nodes.Text)):
        if _stands_apart(text):
            continue
        for match in search.finditer(text):
            term = entries[match.lastindex - 1]
            if term not in seen:
                seen.add(term)
                yield term, text, match.span()


def _stands_apart(text: nodes.Text) -> bool:
    node = text.parent
    while node is not None:
        if isinstance(node, _APART) or "cell_output" in node.get("classes", ()):
            return True
        node = node.parent
    return False


def _find_uses(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Note which pages use each term; the glossary is written anew with that."""
    places = names_and_places(env.get_doctree(GLOSSARY))
    lessons = sorted(name for name in env.found_docs if name.startswith(LESSONS))
    uses: dict[Term, list[str]] = {term: [] for term in places}
    for name in lessons:
        for term, _, _ in _uses(env.get_doctree(name), list(places)):
            uses[term].append(name)
    unused = [term for term, users in uses.items() if not users]
    for name in sorted(name for name in env.found_docs if name.startswith(INTERFACES) and unused):
        for term, _, _ in _uses(env.get_doctree(name), unused):
            uses[term].append(name)
    for term in unused:
        if lessons and not uses[term]:
            _log.warning("no lesson and no kernel uses the term %r", term[0], location=GLOSSARY)
    env.course_places, env.course_uses = places, uses
    return [GLOSSARY, *lessons]


def _link(app: Sphinx, document: nodes.document, name: str) -> None:
    env = app.env
    if name == GLOSSARY:
        _say_where(app, document)
    elif name.startswith(LESSONS):
        glossary = app.builder.get_relative_uri(name, GLOSSARY)
        cuts: dict[nodes.Text, list] = {}
        for term, text, span in _uses(document, list(env.course_places)):
            cuts.setdefault(text, []).append((span, f"{glossary}#{env.course_places[term]}"))
        for text, its in cuts.items():
            made, end = [], 0
            for (start, stop), target in its:
                link = nodes.reference("", str(text[start:stop]), internal=True, refuri=target)
                link["classes"] = ["site-term"]
                made += [nodes.Text(text[end:start]), link]
                end = stop
            text.parent.replace(text, [*made, nodes.Text(text[end:])])


def _say_where(app: Sphinx, document: nodes.document) -> None:
    """Say below each definition which pages use the term, with links to the first few."""
    for entry in document.findall(nodes.definition_list_item):
        term = tuple(e.astext() for e in entry.children if isinstance(e, nodes.term))
        users = app.env.course_uses[term]
        what = "Lesson" if users[:1] and users[0].startswith(LESSONS) else "Page"
        line = nodes.paragraph("", f"{what} " if len(users) == 1 else f"{what}s ")
        line["classes"] = ["site-users"]
        for user in users[:MOST_USERS]:
            target = app.builder.get_relative_uri(GLOSSARY, user)
            called = user[len(LESSONS) :][:2] if what == "Lesson" else user[len(INTERFACES) :]
            line += nodes.Text(", " if user is not users[0] else "")
            line += nodes.reference("", called, internal=True, refuri=target)
        if len(users) > MOST_USERS:
            line += nodes.Text(f" and {len(users) - MOST_USERS} more")
        entry.children[-1].append(line)


# --- formulas ------------------------------------------------------------------------------------


def _inline(translator, node: nodes.math) -> None:
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _displayed(translator, node: nodes.math_block) -> None:
    translator.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def _mathml(node: nodes.Element, as_block: bool) -> str:
    return tex2mathml(node.astext(), as_block=as_block)
