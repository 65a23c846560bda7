"""A web page that needs nothing else: no scripts, no other files, light and dark, readable aloud."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1a1a1a; --quiet: #595959; --line: #c8c8c8; --bar: #2563a8;
  --sub: #7a4100; --sub-ground: #fff0d1; --del: #941a1a; --del-ground: #fde3e3; --ins: #0a4a82; --ins-ground: #deedfb; }
@media (prefers-color-scheme: dark) { :root { --page: #16181c; --text: #e8e8e8; --quiet: #a8a8a8; --line: #4a4d52;
  --bar: #7fb2ea; --sub: #ffca75; --sub-ground: #3a2b0f; --del: #ffa3a3; --del-ground: #431a1a; --ins: #a3cfff;
  --ins-ground: #12304d; } }
body { margin: 0 auto; padding: 1rem; max-width: 70rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; }
h3 { font: 600 1rem/1.5 system-ui, sans-serif; margin: 1.5rem 0 0; overflow-wrap: anywhere; }
p.quiet { margin: 0 0 .25rem; color: var(--quiet); }
.wide { overflow-x: auto; } .wide:focus-visible { outline: 2px solid var(--bar); }
table { border-collapse: collapse; } caption { text-align: start; color: var(--quiet); padding-bottom: .5rem; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid var(--line); text-align: end;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th.name, td.name { text-align: start; } td.name { white-space: normal; overflow-wrap: anywhere; }
tr.total > * { font-weight: 700; border-top: 2px solid var(--text); }
.words { display: flex; flex-wrap: wrap; gap: .5rem .25rem; margin: .25rem 0; padding: 0; list-style: none; }
.words > li { display: flex; flex-direction: column; align-items: center; padding: 0 .3rem; border-radius: .25rem;
  border: 1px solid transparent; }
.words .sign { font-weight: 700; line-height: 1.1; min-height: 1.1em; }
.sub { color: var(--sub); background: var(--sub-ground); } .del { color: var(--del); background: var(--del-ground); }
.ins { color: var(--ins); background: var(--ins-ground); }
.words > li.sub, .words > li.del, .words > li.ins { border-color: currentcolor; }
.heard-same { color: var(--quiet); }
.key span { padding: 0 .4rem; border: 1px solid currentcolor; border-radius: .25rem; margin-inline-end: .75rem; }
.aloud { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
svg { max-width: 100%; height: auto; } svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
svg .bar { fill: var(--bar); } svg .axis { stroke: var(--line); }
"""


def page(sections: Iterable[str]) -> str:
    """The whole page as text. Whatever comes from data must have been escaped in its section."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Cepstra evaluation</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        f"<h1>Cepstra evaluation</h1>\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def html_table(label: str, caption: str, head: str, rows: str | Iterable[str]) -> str:
    """A table in a region of its own that can be scrolled sideways, by keyboard too."""
    return (
        f'<div class="wide" role="region" aria-label="{safe(label)}" tabindex="0">\n<table>\n'
        f"<caption>{safe(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{''.join(rows)}</tbody>\n"
        "</table>\n</div>\n"
    )


def head_cell(label: str, *, name: bool = False) -> str:
    """A cell of a table's head; name: left-aligned, as the names below it."""
    return f'<th scope="col" class="name">{safe(label)}</th>' if name else f'<th scope="col">{safe(label)}</th>'


def safe(data: str) -> str:
    """Data made safe for element and attribute; what UTF-8 can't hold becomes question marks."""
    return escape(data.encode("utf-8", "replace").decode("utf-8"))
