"""Reading HTML, for tests: a page is a tree, and every tag that opens closes."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

__all__ = ["Node", "tree"]

VOID = {"meta", "br", "link", "img", "input", "hr"}  # never closed


@dataclass
class Node:
    """A tag with what is inside."""

    tag: str
    attributes: dict[str, str]
    parts: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All words inside, single-spaced."""
        words = (part if isinstance(part, str) else part.text for part in self.parts)
        return " ".join(" ".join(words).split())

    def all(self, tag: str = "", cls: str = "") -> list[Node]:
        """Everything inside with a tag, or a class."""
        inner = [node for part in self.parts if isinstance(part, Node) for node in (part, *part.all())]
        return [
            node
            for node in inner
            if tag in ("", node.tag) and (not cls or cls in node.attributes.get("class", "").split())
        ]


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Node("page", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].parts.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].parts.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag, f"</{tag}> closes something else"

    def handle_data(self, data: str) -> None:
        self.open[-1].parts.append(data)


def tree(html: str) -> Node:
    """Parse a page; a tag that is not closed, or closed out of turn, is an error."""
    builder = _Builder()
    builder.feed(html)
    builder.close()
    assert [node.tag for node in builder.open] == ["page"], f"not closed: {[node.tag for node in builder.open[1:]]}"
    return builder.open[0]
