#!/usr/bin/env python3
"""The performance bench: a provider beside the Go peer, interleaved, medians and ratios (Linux).

    bench.py --terraform CLI --peer BINARY [--provider BINARY --kubeconfig FILE] [--rounds N] [--starts N] [--check]

Start-up: from the spawn to the handshake line, with the environment that Terraform gives (client certificate included), and
the resident memory at that moment. Plan: `terraform plan` of 1,000 services: wall time in plain runs; CPU time and peak
memory of the provider's processes in runs of their own, where measured.py stands between. Absolute figures of a shared
machine mean little; the ratios are the result. Without --provider only the peer is measured. With --check the goals (below)
must be met.
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

HERE = Path(__file__).resolve().parent
COOKIE = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2"
LOGS_OFF = {name: "OFF" for name in ("TF_LOG_SDK", "TF_LOG_SDK_FRAMEWORK", "TF_LOG_SDK_PROTO")}
MIB = 1024  # in the unit of /proc, KiB


class Contender:
    def __init__(self, name, binary, address, configuration, environment=None):
        self.name, self.binary, self.address = name, binary, address
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


def plan(cli, contender, folder, kubeconfig, extra=None):
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TF_CLI_CONFIG_FILE": str(folder / "cli.tfrc"),
                   "TF_DATA_DIR": str(folder / "data"), "CHECKPOINT_DISABLE": "1", "TF_IN_AUTOMATION": "1",
                   **({"TF_VAR_config_path": kubeconfig} if kubeconfig else {}), **contender.environment, **(extra or {})}
    before = time.perf_counter()
    done = subprocess.run([cli, "plan", "-input=false", "-no-color", "-out=plan"], cwd=folder, env=environment,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    took = time.perf_counter() - before
    if done.returncode != 0 or "1000 to add" not in done.stdout:
        raise RuntimeError(f"{contender.name}: plan ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return took


def measure_plan(cli, contender, folder, kubeconfig):
    workspace(contender, folder, contender.binary)
    contender.wall_s.append(plan(cli, contender, folder, kubeconfig))
    if not contender.binary:
        return
    workspace(contender, folder, HERE / "measured.py")
    report = folder / "report"
    plan(cli, contender, folder, kubeconfig, {"BENCH_PROVIDER": contender.binary, "BENCH_REPORT": str(report)})
    rows = [line.split() for line in report.read_text().splitlines()]
    contender.processes.append(len(rows))
    contender.cpu_s.append(sum(float(cpu) for cpu, _ in rows))
    contender.peak_mib.append(max(int(peak) for _, peak in rows) / MIB)


MEASURES = [  # title, attribute, digits, goal as a figure, goal as a ratio to the peer with its logs off
    ("spawn to handshake, ms", "handshake_ms", 1, 2.0, 0.1),
    ("RSS at handshake, MiB", "start_rss_mib", 1, 8.0, None),
    ("plan of 1,000: wall, s", "wall_s", 2, None, 0.5),
    ("plan of 1,000: provider CPU, s", "cpu_s", 3, 0.1, 0.1),
    ("plan of 1,000: peak RSS, MiB", "peak_mib", 1, 12.0, None),
]


def median(values):
    return statistics.median(values) if values else None


def report(contenders, ours, peer_off):
    """The table; returns the goals that are not met."""
    width = max(len(title) for title, *_ in MEASURES)
    print(f"\n{'median':<{width}}" + "".join(f"{one.name:>20}" for one in contenders)
          + ("" if not ours else f"{'ratio to quiet peer':>21}  goal"))
    missed = []
    for title, attribute, digits, most, ratio_most in MEASURES:
        line = f"{title:<{width}}"
        for one in contenders:
            value = median(getattr(one, attribute))
            line += f"{'-' if value is None else format(value, f'.{digits}f'):>20}"
        if ours:
            value, peers = median(getattr(ours, attribute)), median(getattr(peer_off, attribute))
            ratio = value / peers
            goals = ([f"at most {most:g}"] if most else []) + ([f"ratio at most {ratio_most:g}"] if ratio_most else [])
            met = (most is None or value <= most) and (ratio_most is None or ratio <= ratio_most)
            line += f"{ratio:>21.3f}  {', '.join(goals)}: {'met' if met else 'NOT MET'}"
            if not met:
                missed.append(title)
        print(line)
    return missed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--terraform", required=True)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--provider")
    parser.add_argument("--kubeconfig")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--starts", type=int, default=30)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if not Path("/proc/self/status").exists():
        parser.error("the bench reads /proc: Linux only")

    peer = Contender("Go peer", options.peer, "example/peer", "peer.tf")
    peer_off = Contender("Go peer, logs off", options.peer, "example/peer", "peer.tf", LOGS_OFF)
    floor = Contender("no plugin (floor)", None, None, "floor.tf")
    ours = Contender("loomplane", options.provider, "loomplane/loomplane", "loomplane.tf") if options.provider else None
    contenders = [one for one in (ours, peer, peer_off, floor) if one]
    with tempfile.TemporaryDirectory(prefix="loomplane-bench-") as name:
        folder = Path(name)
        certificate = client_certificate(folder)
        print(f"{options.starts} starts and {options.rounds} rounds of plans each, interleaved; load average {os.getloadavg()[0]:.1f}")
        for _ in range(options.starts):
            for one in contenders:
                if one.binary:
                    measure_start(one, certificate)
        for number in range(options.rounds):
            for one in contenders:
                measure_plan(options.terraform, one, folder / "plan", options.kubeconfig if one is ours else None)
            print(f"round {number + 1}: " + ", ".join(f"{one.name} {one.wall_s[-1]:.2f} s" for one in contenders), flush=True)
    missed = report(contenders, ours, peer_off)
    print(f"provider processes of one plan: {', '.join(f'{one.name} {median(one.processes):g}' for one in contenders if one.binary)}")
    if missed and options.check:
        sys.exit("goals not met: " + "; ".join(missed))


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"bench: {error}")
