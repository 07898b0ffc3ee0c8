"""Collects the fragments of changelog.d into CHANGELOG.md for a release, and prints a release's notes.

python .ci/changelog.py collect VERSION DATE    # CHANGELOG.md gets the section; the fragments are removed
python .ci/changelog.py notes VERSION           # the section, for the release's page; VERSION is that of pyproject.toml
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

KINDS = ("security", "added", "changed", "removed", "fixed")
POINTER = "Fragments of newer changes are in `changelog.d/`.\n"
UNRELEASED = "## Unreleased\n"


def collect(folder: Path, version: str, date: str) -> None:
    """Move the fragments, and all that stands under *Unreleased*, into a section of the version."""
    changelog = folder / "CHANGELOG.md"
    head, begin, rest = changelog.read_text(encoding="utf-8").partition(UNRELEASED)
    if not begin or f"## {version} " in rest:
        raise SystemExit(f"CHANGELOG.md has no section Unreleased, or has this version: version={version}")
    unreleased, separator, older = rest.partition("\n## ")
    sections = _sections(unreleased.replace(POINTER, ""))
    fragments = sorted((folder / "changelog.d").glob("*.*.md"))
    for fragment in fragments:
        sections.setdefault(_kind(fragment), []).append(_entry(fragment))
    body = "".join(f"### {kind.capitalize()}\n{''.join(sections[kind])}\n" for kind in KINDS if kind in sections)
    released = f"{UNRELEASED}\n{POINTER}\n## {version} ({date})\n\n{body.rstrip()}\n"
    changelog.write_text(head + released + separator + older, encoding="utf-8")
    for fragment in fragments:
        fragment.unlink()


def notes(folder: Path, version: str) -> str:
    """The section of a version, an entry in a line: the forge breaks lines of notes where they break."""
    built = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if built != version:
        raise SystemExit(f"pyproject.toml builds another version: version={version} built={built}")
    text = (folder / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {re.escape(version)} .*?\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section of this version: version={version}; collect the fragments first")
    return re.sub(r"\n  (?=\S)(?!- )", " ", found[1].strip()) + "\n"


def _sections(text: str) -> dict[str, list[str]]:
    parts = re.split(r"^### (\w+)\n", text, flags=re.MULTILINE)
    unknown = {name.lower() for name in parts[1::2]} - set(KINDS)
    if unknown or parts[0].strip():
        raise SystemExit(f"the section Unreleased has text of no known kind: {sorted(unknown)} {parts[0].strip()!r}")
    return {name.lower(): [body.strip("\n") + "\n"] for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def _kind(fragment: Path) -> str:
    kind = fragment.name.split(".")[-2]
    if kind not in KINDS:
        raise SystemExit(f"a fragment is NAME.KIND.md, with a known kind: file={fragment.name} kinds={KINDS}")
    return kind


def _entry(fragment: Path) -> str:
    """A fragment as entries of a list; one that is a list already stays as it is."""
    text = fragment.read_text(encoding="utf-8").strip()
    if text.startswith("- "):
        return f"{text}\n"
    return "- " + text.replace("\n", "\n  ").replace("\n  \n", "\n\n") + "\n"


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1]
    match sys.argv[1:]:
        case ["collect", release, day]:
            collect(here, release, day)
        case ["notes", release]:
            sys.stdout.write(notes(here, release))
        case _:
            raise SystemExit(__doc__)
