"""Packs the wheel: `wheel.py LIBRARY COMPILER VERSION FOLDER`. `cargo xtask bindings` runs it.

The library is built with the workspace, whose dependencies it shares; a builder that runs cargo itself would build all
of them once more, with other features. One library serves every CPython from 3.10 on, by the stable ABI.
"""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
PYTHON_TAG, ABI_TAG = "cp310", "abi3"
# The same bytes for the same content.
DATE = (1980, 1, 1, 0, 0, 0)


def platform(programs):
    """Returns the platform tag: the newest glibc that one of the programs asks for."""
    versions = [int(minor) for program in programs for minor in re.findall(rb"GLIBC_2\.(\d+)\b", program)]
    return f"manylinux_2_{max([17, *versions])}_x86_64"


def extras(project):
    """Returns the fields of the extras, of which each has one requirement on its line."""
    section = project.split("[project.optional-dependencies]\n")[1].split("\n\n")[0]
    for name, requirement in re.findall(r'^([\w-]+) = \["([^"]+)"\]$', section, re.MULTILINE):
        yield "Provides-Extra", name
        yield "Requires-Dist", f'{requirement}; extra == "{name}"'


def metadata(version):
    project = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    summary = re.search(r'^description = "(.*)"$', project, re.MULTILINE).group(1)
    keywords = re.findall(r'"(\w+)"', re.search(r"^keywords = \[(.*)\]$", project, re.MULTILINE).group(1))
    fields = [
        ("Metadata-Version", "2.4"),
        ("Name", "opcell"),
        ("Version", version),
        ("Summary", summary),
        ("Keywords", ",".join(keywords)),
        ("License-Expression", "Apache-2.0"),
        ("License-File", "LICENSE"),
        ("Requires-Python", ">=3.10"),
        *extras(project),
        ("Description-Content-Type", "text/markdown"),
    ]
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    return "".join(f"{key}: {value}\n" for key, value in fields) + "\n" + readme


def main(library, compiler, version, folder):
    library, compiler = Path(library).read_bytes(), Path(compiler).read_bytes()
    tag = f"{PYTHON_TAG}-{ABI_TAG}-{platform([library, compiler])}"
    info = f"opcell-{version}.dist-info"
    wheel = f"Wheel-Version: 1.0\nGenerator: opcell\nRoot-Is-Purelib: false\nTag: {tag}\n"
    package = sorted(path for path in (HERE / "opcell").iterdir() if path.suffix in (".py", ".pyi", ".typed"))
    files = {f"opcell/{path.name}": (path.read_bytes(), 0o644) for path in package}
    files["opcell/_native.abi3.so"] = (library, 0o755)
    files["opcell/opcell-compile"] = (compiler, 0o755)
    files[f"{info}/METADATA"] = (metadata(version).encode(), 0o644)
    files[f"{info}/WHEEL"] = (wheel.encode(), 0o644)
    files[f"{info}/licenses/LICENSE"] = ((HERE / "../../LICENSE").read_bytes(), 0o644)
    record = []
    for name, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(content)}\n")
    record.append(f"{info}/RECORD,,\n")
    files[f"{info}/RECORD"] = ("".join(record).encode(), 0o644)
    path = Path(folder) / f"opcell-{version}-{tag}.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, (content, mode) in files.items():
            entry = zipfile.ZipInfo(name, DATE)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)
    print(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
