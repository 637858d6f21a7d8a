"""A strict reader of the pages that the report makes: what is open is closed, in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "wbr", "hr", "link", "img", "input"}
DRAWN = {"rect", "line", "path", "circle"}


@dataclass
class Element:
    """An element with its attributes, children and text."""

    name: str
    attributes: dict[str, str | None]
    children: list[Element] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)

    def all(self, *names: str) -> list[Element]:
        """All elements of these names below this one, in the order of the page."""
        found = []
        for child in self.children:
            if child.name in names or not names:
                found.append(child)
            found += child.all(*names)
        return found

    @property
    def text(self) -> str:
        """All text inside, joined."""
        return "".join(self.pieces)


class Reader(HTMLParser):
    """Builds the tree; whatever is not nested properly is an AssertionError."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("#page", {})
        self.open = [self.root]
        self.comments: list[str] = []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> repeats an attribute"
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        assert tag in DRAWN, f"<{tag}/> is not empty"
        self.open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element.pieces.append(data)

    def handle_comment(self, data):
        self.comments.append(data)


def read_page(page: str) -> Element:
    """The page as a tree."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], f"<{reader.open[-1].name}> is never closed"
    return reader.root
