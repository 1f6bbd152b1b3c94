"""Circles in a graph of who imports whom."""

from collections import deque


def circles_of(graph: dict[str, set[str]]) -> list[list[str]]:
    """A circle through each node that is on one of which no node was named before."""
    found: list[list[str]] = []
    for start in sorted(graph):
        if any(start in circle for circle in found):
            continue
        before: dict[str, str] = {}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            for after in sorted(graph.get(node, ())):
                if after not in before:
                    before[after] = node
                    queue.append(after)
        if start in before:
            circle = [start]
            while circle[-1] != start or len(circle) == 1:
                circle.append(before[circle[-1]])
            found.append(circle[::-1])
    return found
