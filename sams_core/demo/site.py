"""A small web site of our own on 127.0.0.1, and the function that reads a page of it as text."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from urllib.parse import urlsplit

_BREAKS = frozenset(("h1", "p", "div", "li", "br", "ol", "ul"))


@dataclass(frozen=True)
class Page:
    """One page; `canary` is a word that only its poison contains, empty on a benign page."""

    name: str
    html: str
    title: str
    text: str
    canary: str
    style: str


class _Reader(HTMLParser):
    """Takes all text of a page, hidden blocks included, as most page readers for models do."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.title = ""
        self.meta: dict[str, str] = {}
        self.parts: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag if tag in ("title", "head") else self._inside
        self._inside = "" if tag == "body" else self._inside
        given = dict(attrs)
        if tag == "meta" and given.get("name"):
            self.meta[str(given["name"])] = given.get("content") or ""
        if tag in _BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._inside = "head"

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data
        elif not self._inside:
            self.parts.append(" ".join(data.split(" ")).replace("\n", " "))

    def text(self) -> str:
        lines = ("".join(self.parts)).split("\n")
        return "\n".join(line.strip() for line in lines if line.strip())


def parse(name: str, html: str) -> Page:
    """Read a page's title, text and what it says about itself in its head."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return Page(
        name,
        html,
        reader.title.strip(),
        reader.text(),
        reader.meta.get("canary", ""),
        reader.meta.get("style", ""),
    )


def pages() -> dict[str, Page]:
    """Return the pages by name; one called `x.changed` is what `x` becomes later."""
    found = {}
    for item in sorted(files("sams_core.demo").joinpath("pages").iterdir(), key=lambda i: i.name):
        if item.name.endswith(".html"):
            name = item.name.removesuffix(".html")
            found[name] = parse(name, item.read_text(encoding="utf-8"))
    return found


class Site:
    """The running site."""

    def __init__(self, address: str, shown: dict[str, Page]) -> None:
        self.address = address
        self._shown = shown

    def url(self, name: str) -> str:
        """Return the address of a page."""
        return f"{self.address}/{name}.html"

    def change(self, name: str) -> None:
        """Serve from now on what the page becomes later."""
        self._shown[name] = self._shown[f"{name}.changed"]


@contextmanager
def serve(shown: dict[str, Page]) -> Iterator[Site]:
    """Serve pages on a free port of the loopback interface until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = shown.get(self.path.removeprefix("/").removesuffix(".html"))
            body = (page.html if page else "no such page").encode()
            self.send_response(200 if page else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the terminal is the story's."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield Site(f"http://127.0.0.1:{server.server_port}", shown)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def fetch_page(url: str) -> str:
    """Fetch a page over HTTP and return its title, an empty line and its text.

    This is the application's own tool: it knows nothing of sessions. No proxy is asked, since the
    site is on this machine.
    """
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", parts.path)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ValueError(f"HTTP status {answer.status}")
        page = parse(parts.path, answer.read().decode("utf-8"))
    finally:
        connection.close()
    return f"{page.title}\n\n{page.text}"
