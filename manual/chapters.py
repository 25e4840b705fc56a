"""Makes chapters of the manual from documents that stay where they are: docs/ and those at the root.

Links in all of them are those of the repository, so that they work there too. Where one leads to a page of the
manual it goes there; where it leads to another file, to that file in the repository. What leads nowhere is left
as it is: mkdocs says so, and `--strict` refuses it.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "PROMISES.md"]

# [text](target) outside of code; the target has no spaces.
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
# Code in a line, or in a block; both stay as they are.
CODE = re.compile(r"(^```.*?^```$|^(?: {4}|\t).*?$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_config(config):
    """Headings get the names that the tidy test and code forges give them."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files, config):
    """Adds the chapters."""
    chapters = [f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md"))]
    for name in DOCUMENTS + chapters:
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, config, files):
    """Links of the repository become links of the manual."""
    pages = {Path(file.abs_src_path).resolve(): file.src_uri for file in files.documentation_pages()}
    here = Path(page.file.abs_src_path).resolve()

    def follow(link):
        before, target, after = link.groups()
        path, mark, anchor = target.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return link[0]
        there = (here.parent / path).resolve()
        if there in pages:
            to = os.path.relpath(pages[there], Path(page.file.src_uri).parent)
        elif there.exists() and ROOT in there.parents:
            kind = "tree" if there.is_dir() else "blob"
            to = f"{config.repo_url.rstrip('/')}/{kind}/main/{quote(there.relative_to(ROOT).as_posix())}"
        else:
            return link[0]
        return before + to + mark + anchor + after

    # Every second part is code.
    parts = CODE.split(markdown)
    parts[::2] = [LINK.sub(follow, part) for part in parts[::2]]
    return "".join(parts)


def slug(heading, separator):
    """As `slug` of crates/linecard-cli/tests/tidy/links.rs."""
    kept = (letter for letter in heading.strip().lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", separator)
