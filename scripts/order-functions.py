#!/usr/bin/env python3
"""make order-functions: writes scripts/functions.ld, by which the linker puts the functions side by side that a plan and an apply run.

A provider's memory is mostly its own code, which the kernel maps in pieces of 64 KiB around each function that runs. Of 12 MiB of code
a plan runs a quarter, spread over all of it: side by side it is resident a third as much, and takes fewer page faults at each start.

Needs valgrind and Linux with musl (scripts/release.sh). The list holds names without the hash of a build: what it does not know, or
knows and is gone, is placed as ever, so that it ages without harm. Run it again after large changes.
"""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "scripts" / "functions.ld"
PLANE = ROOT / "acceptance-tests" / "control-plane"
HEADER = """/* Written by scripts/order-functions.py (make order-functions): functions of a start, of a plan, of an apply, in this order; then
   the same of names that stand for others too. */
SECTIONS
{
  .text.in_use :
  {
"""
FOOTER = """  }
}
INSERT BEFORE .text;
"""


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, text=True, **options)


def traced(binary, folder, kubeconfig):
    """The functions that each process of a plan and of an apply ran, by their names in the binary."""
    plugin = folder / "plugin" / "terraform-provider-loomplane"
    plugin.parent.mkdir()
    plugin.write_text(f"#!/bin/sh\nexec valgrind --tool=callgrind -q --demangle=no --callgrind-out-file={folder}/ran.%p {binary} \"$@\"\n")
    plugin.chmod(0o755)
    (folder / "cli.tfrc").write_text(
        f'provider_installation {{\n  dev_overrides {{\n    "loomplane/loomplane" = "{plugin.parent}"\n  }}\n  direct {{}}\n}}\n')
    shutil.copy(ROOT / "bench" / "configurations" / "apply.tf", folder / "main.tf")
    terraform = run(ROOT / "acceptance-tests" / "tools" / "ensure.sh", "terraform-cli", stdout=subprocess.PIPE).stdout.strip()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TF_CLI_CONFIG_FILE": str(folder / "cli.tfrc"), "CHECKPOINT_DISABLE": "1",
                   "TF_VAR_config_path": kubeconfig, "TF_VAR_namespace": "default", "TF_VAR_services": "20"}
    sets = []
    for command in (["plan", "-out=plan"], ["apply", "plan"], ["plan"]):
        run(terraform, command[0], "-input=false", "-no-color", *command[1:], cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        ran = []
        for file in folder.glob("ran.*"):
            names = re.findall(r"^c?fn=\(\d+\) (.*)$", file.read_text(errors="replace"), re.MULTILINE)
            ran.append({re.sub(r"'\d+$", "", name).strip() for name in names})
            file.unlink()
        sets.append(ran)
    return sets


def pattern(name):
    """A name without what differs from build to build: a hash of Rust's, a crate's disambiguator."""
    name = re.sub(r"17h[0-9a-f]{16}E.*$", "17h*", name)
    return re.sub(r"(?<=C)s[0-9A-Za-z]+_(?=\d)", "s*_", name) if name.startswith("_R") else name


def main():
    environment = os.environ | {"CARGO_PROFILE_RELEASE_STRIP": "none"}
    binary = run(ROOT / "scripts" / "release.sh", stdout=subprocess.PIPE, env=environment).stdout.strip()
    symbols = run("nm", "--defined-only", binary, stdout=subprocess.PIPE).stdout.splitlines()
    code = {line.split()[2] for line in symbols if line.split()[1] in "tTwW"}
    folder = Path(tempfile.mkdtemp())
    try:
        kubeconfig = run(PLANE / "control_plane.py", "up", folder / "plane", "--api-only", stdout=subprocess.PIPE).stdout.strip()
        run(PLANE / "fleet.py", "apply", kubeconfig, ROOT / "acceptance-tests" / "fleets" / "small-aws.json", stdout=subprocess.DEVNULL)
        plan, apply, again = traced(binary, folder, kubeconfig)
    finally:
        run(PLANE / "control_plane.py", "down", folder / "plane")
        shutil.rmtree(folder)
    start, planned, applied = set.intersection(*plan), set.union(*plan), set.union(*apply, *again)
    # Without its hash, a name may stand for more of the same generic function, which nothing here runs: those come last.
    idle = {pattern(name) for name in code - planned - applied}
    groups = [{pattern(name) for name in group & code} for group in (start, planned - start, applied - planned)]
    seen, lines = set(), []
    for group in (*(names - idle for names in groups), *(names & idle for names in groups)):
        for name in sorted(group - seen):
            seen.add(name)
            # A C function of the loader or of a library without sections of its own has none by its name: no harm.
            lines.append(f"    *(.text.{name})\n")
    SCRIPT.write_text(HEADER + "".join(lines) + FOOTER)
    print(f"{SCRIPT.relative_to(ROOT)}: {len(lines)} names")


if __name__ == "__main__":
    main()
