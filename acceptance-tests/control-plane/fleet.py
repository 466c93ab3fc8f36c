#!/usr/bin/env python3
"""Creates the nodes of a fleet: what a cloud's node groups look like in a Kubernetes API, GPUs included.

    fleet.py apply  KUBECONFIG FLEET    create or replace every node; all are Ready when it ends
    fleet.py delete KUBECONFIG FLEET    remove them
FLEET is a JSON file, or - for standard input: a list of node groups, each
    {"name": "l4", "nodes": 2, "gpus": 1, "labels": {...}, "taints": ["nvidia.com/gpu=present:NoSchedule"]}
with, when wanted, "cpu", "memory", "arch" (amd64), "unschedulable", "gpu_resource" (nvidia.com/gpu), "resources" (more of
them), "ready" (true; false: its kubelet never comes up). Nodes are called NAME-0, NAME-1, ...
KUBECONFIG is one that control_plane.py wrote. Two requests a node, on several connections, no wait in between: a kubelet
registers itself in the same way, status and all.
"""

import http.client
import json
import ssl
import sys
import threading
import time
import urllib.parse
from pathlib import Path

CONNECTIONS = 8
NOW = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Api:
    """One connection to the API server."""

    def __init__(self, path):
        with open(path) as file:
            config = json.load(file)
        server = urllib.parse.urlsplit(config["clusters"][0]["cluster"]["server"])
        context = ssl.create_default_context(cafile=config["clusters"][0]["cluster"]["certificate-authority"])
        self.connection = http.client.HTTPSConnection(server.hostname, server.port, context=context, timeout=60)
        self.headers = {"Authorization": "Bearer " + config["users"][0]["user"]["token"], "Content-Type": "application/json"}

    def call(self, method, path, body=None, content_type="application/json"):
        headers = {**self.headers, "Content-Type": content_type}
        self.connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = self.connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")


def taint(text):
    """kubectl's form: KEY[=VALUE]:EFFECT."""
    rest, effect = text.rsplit(":", 1)
    key, _, value = rest.partition("=")
    return {"key": key, "effect": effect, **({"value": value} if value else {})}


def node(group, index, kubelet):
    name = f"{group['name']}-{index}"
    arch, ready = group.get("arch", "amd64"), group.get("ready", True)
    resources = {"cpu": str(group.get("cpu", 32)), "memory": group.get("memory", "256Gi"), "pods": "110",
                 "ephemeral-storage": "500Gi", **group.get("resources", {})}
    if group.get("gpus"):
        resources[group.get("gpu_resource", "nvidia.com/gpu")] = str(group["gpus"])
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/arch": arch, "kubernetes.io/os": "linux", **group.get("labels", {})}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels,
                     # kwok's own stage would make it Ready: stages/node-not-ready.yaml holds it back
                     "annotations": {} if ready else {"loomplane.bench/outcome": "not-ready"}},
        "spec": {"taints": [taint(text) for text in group.get("taints", [])],
                 **({"unschedulable": True} if group.get("unschedulable") else {})},
        "status": {"capacity": resources, "allocatable": resources,
                   "conditions": [{"type": "Ready", "status": "True" if ready else "False",
                                   "reason": "KubeletReady" if ready else "KubeletNotReady",
                                   "lastHeartbeatTime": NOW, "lastTransitionTime": NOW}],
                   **kubelet,
                   "nodeInfo": {key: "" for key in ("bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion",
                                                    "machineID", "osImage", "systemUUID")}
                   | {"architecture": arch, "operatingSystem": "linux", "kubeletVersion": "v1.36.3"}},
    }


def kubelet_of(kubeconfig):
    """Where the API server finds the kubelets of a control plane of ours (logs); nothing where that is not known."""
    port = Path(kubeconfig).with_name("kubelet.port")
    if not port.exists():
        return {}
    return {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": int(port.read_text())}}}


def create(api, body):
    name = body["metadata"]["name"]
    for _ in range(2):
        status, answer = api.call("POST", "/api/v1/nodes", body)
        if status != 409:
            break
        api.call("DELETE", f"/api/v1/nodes/{name}")
    if status != 201:
        raise RuntimeError(f"node {name}: {status} {answer.get('message')}")
    if body["status"]["conditions"][0]["status"] == "True":
        # The API server gives every new node the taint not-ready; taking it off is the node-lifecycle controller's work,
        # which is off on this control plane.
        status, answer = api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": body["spec"]["taints"] or None}},
                                  "application/merge-patch+json")
        if status != 200:
            raise RuntimeError(f"node {name}: {status} {answer.get('message')}")


def delete(api, body):
    status, answer = api.call("DELETE", f"/api/v1/nodes/{body['metadata']['name']}")
    if status not in (200, 404):
        raise RuntimeError(f"node {body['metadata']['name']}: {status} {answer.get('message')}")


def in_parallel(kubeconfig, work, items):
    """Each connection takes the next item until none is left; the first error is raised when all have ended."""
    errors, lock, left = [], threading.Lock(), iter(items)

    def run():
        try:
            api = Api(kubeconfig)
            while not errors:
                with lock:
                    item = next(left, None)
                if item is None:
                    return
                work(api, item)
        except Exception as error:  # any kind: it is raised below
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(min(CONNECTIONS, len(items)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("apply", "delete"):
        print(__doc__, file=sys.stderr)
        return 2
    action, kubeconfig, path = sys.argv[1:]
    groups = json.load(sys.stdin if path == "-" else open(path))
    kubelet = kubelet_of(kubeconfig)
    nodes = [node(group, index, kubelet) for group in groups for index in range(group.get("nodes", 1))]
    if action == "delete":
        in_parallel(kubeconfig, delete, nodes)
        return 0
    started = time.monotonic()
    in_parallel(kubeconfig, create, nodes)
    print(f"loomplane: {len(nodes)} nodes in {time.monotonic() - started:.1f} s", file=sys.stderr)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, OSError, ValueError) as error:
        print(f"loomplane: fleet: {error}", file=sys.stderr)
        sys.exit(1)
