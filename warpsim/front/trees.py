"""Nodes of a syntax tree, as ``ast.walk`` gives them, sooner: trees are asked often."""

from __future__ import annotations

import ast


def walk(node: ast.AST) -> list[ast.AST]:
    """A node and all nodes below it, those nearer to it first."""
    nodes = [node]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif type(value) is list:
                nodes += [part for part in value if isinstance(part, ast.AST)]
    return nodes
