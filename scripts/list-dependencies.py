#!/usr/bin/env python3
"""Lists what the command is made of, from the lock file.

    scripts/list-dependencies.py FOLDER

writes FOLDER/linecard.cdx.json (CycloneDX 1.6) and FOLDER/THIRD-PARTY.md (licences, with their texts).
Needs Python 3.11, cargo, and the crates that `cargo fetch --locked` fetches; no network then. Two runs give the
same bytes: there is no time and no random number in either file.

Of scope "required" is what is linked into the command with its default features, on x86-64 Linux; "excluded" is what
only runs while it is compiled: build scripts, procedural macros and what those need.
"""

import hashlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGET = "x86_64-unknown-linux-gnu"
TEXTS = re.compile(r"^(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def cargo(*arguments: str) -> str:
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def tree(edges: str) -> set[tuple[str, str]]:
    """Names and versions of what the command is built of, along some edges."""
    text = cargo("tree", "-p", "linecard-cli", "--target", TARGET, "--edges", edges, "--prefix", "none", "--format", "{p}")
    lines = (line.split() for line in text.splitlines() if line)
    return {(words[0], words[1].removeprefix("v")) for words in lines}


def expression(package: dict) -> str:
    """The licence in SPDX; old crates write "MIT/Apache-2.0"."""
    licence = package["license"]
    if not licence:
        sys.exit(f"{package['name']} {package['version']} names no licence: look into it, and add a rule here")
    return re.sub(r"\s*/\s*", " OR ", licence)


def purl(package: dict) -> str:
    return f"pkg:cargo/{package['name']}@{package['version']}"


def component(package: dict, scope: str, checksums: dict) -> dict:
    found = {"type": "library", "bom-ref": purl(package), "name": package["name"], "version": package["version"]}
    found["scope"] = scope
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        found["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    found["licenses"] = [{"expression": expression(package)}]
    found["purl"] = purl(package)
    if package["repository"]:
        found["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    return found


def uplot() -> tuple[dict, str]:
    """The one part that is not a crate: a script on pages."""
    folder = ROOT / "crates/linecard-report/assets/uplot"
    script = (folder / "uPlot.iife.min.js").read_bytes()
    version = re.search(rb"\(v([0-9.]+)\)", script[:200])
    if not version:
        sys.exit(f"{folder}: the script does not say its version")
    number = version[1].decode()
    found = {"type": "library", "bom-ref": f"pkg:npm/uplot@{number}", "name": "uPlot", "version": number}
    found["scope"] = "required"
    found["hashes"] = [{"alg": "SHA-256", "content": hashlib.sha256(script).hexdigest()}]
    found["licenses"] = [{"expression": "MIT"}]
    found["purl"] = f"pkg:npm/uplot@{number}"
    found["externalReferences"] = [{"type": "vcs", "url": "https://github.com/leeoniya/uPlot"}]
    return found, (folder / "LICENSE").read_text(encoding="utf-8")


def texts_of(package: dict) -> list[str]:
    folder = Path(package["manifest_path"]).parent
    files = sorted(path for path in folder.iterdir() if path.is_file() and TEXTS.match(path.name))
    return [path.read_text(encoding="utf-8", errors="replace") for path in files]


def notices(linked: list[tuple[dict, list[str]]], building: list[dict]) -> str:
    """The page of licences: a table, then each text once with those whose it is."""
    lines = ["# What is in the command", "", "Made by scripts/list-dependencies.py from Cargo.lock.", ""]
    lines += [f"## Linked into it ({len(linked)})", "", "| name | version | licence |", "|---|---|---|"]
    lines += [f"| {c['name']} | {c['version']} | {c['licenses'][0]['expression']} |" for c, _ in linked]
    lines += ["", f"## Used to compile it ({len(building)})", "", "| name | version | licence |", "|---|---|---|"]
    lines += [f"| {c['name']} | {c['version']} | {c['licenses'][0]['expression']} |" for c in building]
    lines += ["", "## Licence texts of what is linked into it", ""]
    owners: dict[str, tuple[str, list[str]]] = {}
    for found, texts in linked:
        if not texts:
            lines += [f"{found['name']} {found['version']} brings no text; its licence is named above.", ""]
        for text in texts:
            # The same text with other line ends or margins is the same text.
            owners.setdefault(" ".join(text.split()), (text, []))[1].append(f"{found['name']} {found['version']}")
    for text, names in owners.values():
        indented = ["    " + line.rstrip() if line.strip() else "" for line in text.strip("\n\r").splitlines()]
        lines += ["### " + ", ".join(dict.fromkeys(names)), "", *indented, ""]
    return "\n".join(lines)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: scripts/list-dependencies.py FOLDER")
    folder = Path(sys.argv[1])
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", TARGET))
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    checksums = {(p["name"], p["version"]): p["checksum"] for p in lock if "checksum" in p}
    packages = {(p["name"], p["version"]): p for p in metadata["packages"]}
    linked = tree("normal,no-proc-macro")
    used = tree("normal,build")
    main_key = next(key for key in linked if key[0] == "linecard-cli")

    scopes = {key: "required" if key in linked else "excluded" for key in sorted(used | linked) if key != main_key}
    components = [component(packages[key], scope, checksums) for key, scope in scopes.items()]
    script, script_text = uplot()
    by_id = {p["id"]: key for key, p in packages.items()}
    edges = []
    for node in sorted(metadata["resolve"]["nodes"], key=lambda node: by_id[node["id"]]):
        key = by_id[node["id"]]
        if key in scopes or key == main_key:
            # Those for tests are none of the command's.
            below = [d for d in node["deps"] if any(kind["kind"] != "dev" for kind in d["dep_kinds"])]
            on = {purl(packages[by_id[d["pkg"]]]) for d in below if by_id[d["pkg"]] in scopes}
            if key[0] == "linecard-report":
                on.add(script["purl"])
            edges.append({"ref": purl(packages[key]), "dependsOn": sorted(on)})
    edges.append({"ref": script["purl"], "dependsOn": []})

    top = component(packages[main_key], "required", checksums) | {"type": "application"}
    listing = {"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": {"component": top}}
    listing |= {"components": [*components, script], "dependencies": edges}
    ours = {p["name"] for p in metadata["packages"] if p["source"] is None}
    foreign = [c for c in components if c["name"] not in ours]
    parts = [(c, texts_of(packages[c["name"], c["version"]])) for c in foreign if c["scope"] == "required"]
    page = notices([*parts, (script, [script_text])], [c for c in foreign if c["scope"] == "excluded"])

    folder.mkdir(parents=True, exist_ok=True)
    (folder / "linecard.cdx.json").write_text(json.dumps(listing, indent=2) + "\n", encoding="utf-8")
    (folder / "THIRD-PARTY.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
