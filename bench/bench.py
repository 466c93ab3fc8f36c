#!/usr/bin/env python3
"""The performance bench: a provider beside the Go peer, interleaved, medians and ratios (Linux).

    bench.py --terraform CLI --peer BINARY [--provider BINARY --kubeconfig FILE [--same-schema-peer BINARY]
             [--large-kubeconfig FILE]] [--rounds N] [--starts N] [--check]

Start-up: from the spawn to the handshake line, with the environment that Terraform gives (client certificate included), and
the resident memory at that moment. Plan: `terraform plan` of 1,000 services: wall time in plain runs; CPU time and peak
memory of the provider's processes in runs of their own, where measured.py stands between. Absolute figures of a shared
machine mean little; the ratios are the result. Without --provider only the peer is measured. With --check the goals (below)
must be met.

Two peers: a small one of eight attributes, and one that declares the very schema of the provider. Most of a plan's time is
core's own and grows with the attributes, so that wall time is held against the peer of the same schema.
With --large-kubeconfig (a large fleet, its API server started with --audit) the same plan is made there too, and its requests
are counted.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from audit import Audit, in_words

HERE = Path(__file__).resolve().parent
COOKIE = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"
LOGS_OFF = {name: "OFF" for name in ("TF_LOG_SDK", "TF_LOG_SDK_FRAMEWORK", "TF_LOG_SDK_PROTO")}
MIB = 1024  # in the unit of /proc, KiB


class Contender:
    def __init__(self, name, binary, address, configuration, environment=None, kubeconfig=None):
        self.name, self.binary, self.address, self.kubeconfig = name, binary, address, kubeconfig
        self.configuration, self.environment = configuration, environment or {}
        self.handshake_ms, self.start_rss_mib = [], []
        self.wall_s, self.cpu_s, self.peak_mib, self.processes = [], [], [], []


def client_certificate(folder):
    """As core's: self-signed, P-521, a CA."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp521r1", "-nodes", "-days", "1",
         "-subj", "/O=HashiCorp/CN=localhost", "-keyout", folder / "client.key", "-out", folder / "client.crt"],
        check=True, capture_output=True)
    return (folder / "client.crt").read_text()


def resident_kib(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"no VmRSS of process {pid}")


def measure_start(contender, certificate):
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "TF_PLUGIN_MAGIC_COOKIE": COOKIE,
                   "PLUGIN_PROTOCOL_VERSIONS": "6,5", "PLUGIN_MIN_PORT": "10000", "PLUGIN_MAX_PORT": "25000",
                   "PLUGIN_CLIENT_CERT": certificate, **contender.environment}
    before = time.perf_counter()
    process = subprocess.Popen([contender.binary], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        line = process.stdout.readline()
        took = time.perf_counter() - before
        if not line.startswith(b"1|6|"):
            raise RuntimeError(f"{contender.name}: no handshake line but {line!r}")
        contender.start_rss_mib.append(resident_kib(process.pid) / MIB)
        contender.handshake_ms.append(took * 1000)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def workspace(contender, folder, binary_or_wrapper):
    """A fresh folder with the configuration, the override, nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "plugin").mkdir(parents=True)
    shutil.copy(HERE / "configurations" / contender.configuration, folder / "main.tf")
    overrides = ""
    if contender.binary:
        name = "terraform-provider-" + contender.address.split("/")[1]
        os.symlink(binary_or_wrapper, folder / "plugin" / name)
        overrides = f'  dev_overrides {{\n    "{contender.address}" = "{folder / "plugin"}"\n  }}\n'
    (folder / "cli.tfrc").write_text(f"provider_installation {{\n{overrides}  direct {{}}\n}}\n")


def terraform_environment(folder, kubeconfig):
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "TF_CLI_CONFIG_FILE": str(folder / "cli.tfrc"),
            "TF_DATA_DIR": str(folder / "data"), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1",
            **({"TF_VAR_config_path": kubeconfig} if kubeconfig else {})}


def plan(cli, contender, folder, extra=None):
    environment = terraform_environment(folder, contender.kubeconfig) | contender.environment | (extra or {})
    before = time.perf_counter()
    done = subprocess.run([cli, "plan", "-input=false", "-no-color", "-out=plan"], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    took = time.perf_counter() - before
    if done.returncode != 0 or "1000 to add" not in done.stdout:
        raise RuntimeError(f"{contender.name}: plan ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return took


def measure_plan(cli, contender, folder):
    workspace(contender, folder, contender.binary)
    contender.wall_s.append(plan(cli, contender, folder))
    if not contender.binary:
        return
    workspace(contender, folder, HERE / "measured.py")
    report = folder / "report"
    plan(cli, contender, folder, {"BENCH_PROVIDER": contender.binary, "BENCH_REPORT": str(report)})
    rows = [line.split() for line in report.read_text().splitlines()]
    contender.processes.append(len(rows))
    contender.cpu_s.append(sum(float(cpu) for cpu, _ in rows))
    contender.peak_mib.append(max(int(peak) for _, peak in rows) / MIB)


def same_schema(cli, ours, folder):
    """The schema of our provider, for the peer that declares it again."""
    workspace(ours, folder, ours.binary)
    done = subprocess.run([cli, "providers", "schema", "-json"], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env=terraform_environment(folder, ours.kubeconfig))
    if done.returncode != 0:
        raise RuntimeError(f"no schema: {done.stderr[-2000:]}")
    path = folder.parent / "schema.json"
    path.write_text(done.stdout)
    return str(path)


HANDSHAKE, START_RSS = ("spawn to handshake, ms", "handshake_ms", 1), ("RSS at handshake, MiB", "start_rss_mib", 1)
WALL, CPU, PEAK = ("plan of 1,000: wall, s", "wall_s", 2), ("plan of 1,000: provider CPU, s", "cpu_s", 3), ("plan of 1,000: peak RSS, MiB", "peak_mib", 1)
MEASURES = [HANDSHAKE, START_RSS, WALL, CPU, PEAK]


def median(values):
    return statistics.median(values) if values else None


def table(contenders):
    width = max(len(title) for title, *_ in MEASURES)
    for row, one in enumerate(contenders):
        print(f"{'' if row else chr(10)}  [{row + 1}] {one.name}")
    print(f"\n{'median':<{width}}" + "".join(f"{f'[{number + 1}]':>10}" for number in range(len(contenders))))
    for title, attribute, digits in MEASURES:
        values = [median(getattr(one, attribute)) for one in contenders]
        print(f"{title:<{width}}" + "".join(f"{'-' if value is None else format(value, f'.{digits}f'):>10}" for value in values))


def judge(goals):
    """Prints each goal with what was measured; the titles of those that are not met."""
    missed = []
    for (title, attribute, digits), one, peer, most, most_ratio in goals:
        value = median(getattr(one, attribute))
        parts, met = [], True
        if most is not None:
            met &= value <= most
            parts.append(f"{value:.{digits}f} of at most {most:g}")
        if peer:
            ratio = value / median(getattr(peer, attribute))
            met &= ratio <= most_ratio
            parts.append(f"{ratio:.3f} of {peer.name} (at most {most_ratio:g})")
        print(f"{'met    ' if met else 'NOT MET'}  {one.name}: {title}: {', '.join(parts)}")
        if not met:
            missed.append(f"{one.name}: {title}")
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terraform", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--same-schema-peer")
    parser.add_argument("--provider")
    parser.add_argument("--kubeconfig")
    parser.add_argument("--large-kubeconfig")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not Path("/proc/self/status").exists():
        parser.error("the bench reads /proc: Linux only")

    peer = Contender("Go peer", options.peer, "example/peer", "peer.tf")
    quiet = Contender("Go peer, logs off", options.peer, "example/peer", "peer.tf", LOGS_OFF)
    floor = Contender("no plugin (floor)", None, None, "floor.tf")
    ours = large = same = None
    if options.provider:
        ours = Contender("loomplane", options.provider, "loomplane/loomplane", "loomplane.tf", kubeconfig=options.kubeconfig)
        if options.large_kubeconfig:
            large = Contender("loomplane, large fleet", options.provider, "loomplane/loomplane", "loomplane.tf",
                              kubeconfig=options.large_kubeconfig)
        if options.same_schema_peer:
            same = Contender("Go peer of the same schema, logs off", options.same_schema_peer, "example/peer", "peer-same-schema.tf", LOGS_OFF)
    contenders = [one for one in (ours, large, same, quiet, peer, floor) if one]
    with tempfile.TemporaryDirectory(prefix="loomplane-bench-") as name:
        folder = Path(name)
        if same:
            same.environment = same.environment | {"PEER_SCHEMA": same_schema(options.terraform, ours, folder / "plan")}
        certificate = client_certificate(folder)
        print(f"{options.starts} starts and {options.rounds} rounds of plans each, interleaved; load average {os.getloadavg()[0]:.1f}")
        for _ in range(options.starts):
            for one in contenders:
                if one.binary and one is not large:
                    measure_start(one, certificate)
        audit = Audit(options.large_kubeconfig) if large else None
        for number in range(options.rounds):
            for one in contenders:
                measure_plan(options.terraform, one, folder / "plan")
            print(f"round {number + 1}: " + ", ".join(f"{one.name} {one.wall_s[-1]:.2f} s" for one in contenders), flush=True)
        requests = audit.requests() if audit else None
    table(contenders)
    print(f"provider processes of one plan: {', '.join(f'{one.name} {median(one.processes):g}' for one in contenders if one.binary)}")
    if not ours:
        return
    if large:
        plans = 2 * options.rounds  # one for the wall time, one for the rest
        print(f"requests of {plans} plans of 1,000 on the large fleet: {sum(requests.values())}: {in_words(requests)}")
    like = same or quiet
    print()
    missed = judge([
        (HANDSHAKE, ours, quiet, 2.0, 0.1), (START_RSS, ours, None, 8.0, None),
        (WALL, ours, like, None, 0.5), (CPU, ours, like, 0.1, 0.1), (PEAK, ours, None, 12.0, None),
        *([(WALL, large, like, None, 0.6), (CPU, large, like, None, 0.2), (PEAK, large, None, 32.0, None)] if large else []),
    ])
    if like is same:
        print("for comparison:")
        judge([(WALL, ours, quiet, None, 0.5), (CPU, ours, quiet, None, 0.1),
               *([(WALL, large, quiet, None, 0.6), (CPU, large, quiet, None, 0.2)] if large else [])])
    if missed and options.check:
        sys.exit("goals not met: " + "; ".join(missed))


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"bench: {error}")
