"""Adds the documents at the root of the repository to the manual, and rewrites links.

Links in all documents are relative to the repository, so that they also work there. A link to a page of the manual
becomes a link to that page; a link to any other file becomes a link to the file in the repository. A link to a
missing file stays as it is: mkdocs reports it, and `--strict` fails.
"""

import os
import re
from pathlib import Path
from urllib.parse import quote

from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "PROMISES.md", "SECURITY.md"]

# [text](target); the target has no spaces.
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
# Inline code and code blocks, which stay unchanged.
CODE = re.compile(r"(^```.*?^```$|^(?: {4}|\t).*?$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_config(config):
    """Gives headings the anchors that the tidy test and code forges use."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slug
    return config


def on_files(files, config):
    """Adds the documents of the root."""
    for name in DOCUMENTS:
        files.append(File(name, str(ROOT), config.site_dir, config.use_directory_urls))
    return files


def on_page_markdown(markdown, page, config, files):
    """Turns links of the repository into links of the manual."""
    # Pages, and the pictures in them.
    pages = {Path(file.abs_src_path).resolve(): file.src_uri for file in files}
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
    """Must agree with `slug` in crates/linecard-cli/tests/tidy/links.rs."""
    kept = (letter for letter in heading.strip().lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", separator)
