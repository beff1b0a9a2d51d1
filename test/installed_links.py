#!/usr/bin/env python3
"""Installs the documentation into a folder of its own, and follows the links of its pages.

    installed_links.py CMAKE BUILD_FOLDER    prints PAGE:LINE: LINK for each link to a file that is
                                             not installed; exit status 1 if there is any
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")  # the file of [text](file#heading "title")


def dead_links(page):
    """Yields line number and link."""
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        for link in LINK.findall(line):
            if "://" not in link and not (page.parent / link).exists():
                yield number, link


def main():
    cmake, build = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([cmake, "--install", build, "--component", "documentation"], check=True,
                       env={**os.environ, "DESTDIR": folder}, stdout=subprocess.DEVNULL)
        pages = sorted(pathlib.Path(folder).rglob("*.md"))
        dead = [f"{page.relative_to(folder)}:{number}: {link}"
                for page in pages for number, link in dead_links(page)]
    if not pages:
        dead = ["no page is installed"]
    print("\n".join(dead) or f"{len(pages)} pages")
    sys.exit(1 if dead else 0)


if __name__ == "__main__":
    main()
