#!/usr/bin/env python3
"""An apply of many services against `kubectl apply --server-side` of the very objects that it made, interleaved.

    apply.py --terraform CLI --provider BINARY --kubectl BINARY --kubeconfig FILE [--services N] [--rounds N] [--check]

Neither waits for a rollout (kubectl does not). Terraform's time is that of the whole `terraform apply`: start, plan, apply, state.
The API server must have been started with --audit: the provider's requests are counted too.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from audit import Audit, in_words
from bench import Contender, median, terraform_environment, workspace

LEAST_SPEED = 0.8  # of kubectl's
MADE_BY_THE_SERVER = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink")
NAMESPACE = "loomplane-bench"


def run(what, *command, **more):
    done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{what} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def objects_of(kubectl):
    """What the provider made, as somebody would have written it to a file."""
    found = json.loads(run("kubectl get", *kubectl, "get", "deployments,services", "-o", "json"))["items"]
    for item in found:
        item.pop("status", None)
        for name in MADE_BY_THE_SERVER:
            item["metadata"].pop(name, None)
        item["metadata"].get("annotations", {}).pop("deployment.kubernetes.io/revision", None)
        for name in ("clusterIP", "clusterIPs"):
            item["spec"].pop(name, None)
    return {"apiVersion": "v1", "kind": "List", "items": found}


def empty(kubectl):
    run("kubectl delete", *kubectl, "delete", "deployments,services", "--all", "--wait=true")
    while json.loads(run("kubectl get", *kubectl, "get", "deployments,services,pods", "-o", "json"))["items"]:
        time.sleep(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("terraform", "provider", "kubectl", "kubeconfig"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--services", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    admin = [options.kubectl, f"--kubeconfig={options.kubeconfig}"]
    kubectl = [*admin, f"--namespace={NAMESPACE}"]
    run("kubectl create", *admin, "create", "namespace", NAMESPACE)
    ours, theirs, phases = [], [], []
    with tempfile.TemporaryDirectory(prefix="loomplane-bench-") as name:
        folder = Path(name) / "apply"
        contender = Contender("loomplane", options.provider, "loomplane/loomplane", "apply.tf")
        workspace(contender, folder, options.provider)
        environment = terraform_environment(folder, options.kubeconfig) | {
            "TF_VAR_services": str(options.services), "TF_VAR_namespace": NAMESPACE}
        counts = None
        for number in range(options.rounds):
            audit = Audit(options.kubeconfig)
            before = time.perf_counter()
            run("terraform apply", options.terraform, "apply", "-auto-approve", "-input=false", "-no-color",
                cwd=folder, env=environment)
            ours.append(time.perf_counter() - before)
            counts = audit.requests()
            manifest = Path(name) / "objects.json"
            manifest.write_text(json.dumps(objects_of(kubectl)))
            run("terraform destroy", options.terraform, "apply", "-destroy", "-auto-approve", "-input=false", "-no-color",
                cwd=folder, env=environment)
            empty(kubectl)
            before = time.perf_counter()
            run("kubectl apply", *kubectl, "apply", "--server-side", "-f", manifest)
            theirs.append(time.perf_counter() - before)
            empty(kubectl)
            print(f"round {number + 1}: terraform apply {ours[-1]:.2f} s, kubectl apply {theirs[-1]:.2f} s", flush=True)
    speed = median(theirs) / median(ours)
    met = speed >= LEAST_SPEED
    print(f"\napply of {options.services} services (a Deployment and a Service each), median: terraform apply {median(ours):.2f} s, "
          f"kubectl apply --server-side {median(theirs):.2f} s: {speed:.2f} of its speed (at least {LEAST_SPEED}: {'met' if met else 'NOT MET'})")
    print(f"requests of that apply: {sum(counts.values())}: {in_words(counts)}")
    if options.check and not met:
        sys.exit("goal not met: speed of an apply")


if __name__ == "__main__":
    try:
        main()
    except RuntimeError as error:
        sys.exit(f"bench: {error}")
