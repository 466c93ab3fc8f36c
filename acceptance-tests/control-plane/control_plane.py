#!/usr/bin/env python3
"""Starts and stops a real Kubernetes control plane with simulated kubelets, on 127.0.0.1, in a folder of its own.

    control_plane.py up DIR [--api-only] [--node-lifecycle] [--audit] [--while-pid PID]
                                                             start (or find running) and print the path of its kubeconfig
    control_plane.py kill DIR PART                           kill -9 of one part, such as kube-apiserver
    control_plane.py revive DIR PART                         start it again, as it was, and wait until the API server is ready
    control_plane.py down DIR                                stop every part that was started in DIR, and remove DIR
    control_plane.py status DIR                              one line per part; exit code 1 if one does not run

What runs: etcd, kube-apiserver and, unless --api-only, kube-scheduler, kube-controller-manager and kwok (the kubelets).
With --node-lifecycle nodes send heartbeats and the controller that taints silent ones runs; without, neither does: on a
large fleet the heartbeats alone keep two cores busy.
With --audit the API server writes a line of JSON per answered request, with user and agent, to DIR/audit.log.
The parts survive the shell that started them. With --while-pid they are stopped when that process ends, however it ends.
DIR/admin.kubeconfig (mode 0600) is JSON, which is YAML: every client reads it, and so does Python without a library.
"""

import argparse
import json
import os
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ENSURE = HERE.parent / "tools" / "ensure.sh"
# Newest last: parts are stopped in the opposite order, so that the API server is not left waiting for etcd.
API = ["etcd", "kube-apiserver"]
CONTROL = ["kube-scheduler", "kube-controller-manager", "kwok"]
START_SECONDS = 60
STOP_SECONDS = 5
TRIES = 3  # a free port can be taken by somebody else between looking and listening


class Failed(Exception):
    """What went wrong, fit for the user's eyes."""


def say(text):
    print(f"loomplane: {text}", file=sys.stderr)


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def command_of(pid):
    """The command line of a process; empty when there is none (ps, so that it works without /proc too)."""
    shown = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True)
    return shown.stdout.strip()


def running(folder, part):
    """The process id of a part, if it runs. Process ids are used again: one counts only if its command names our folder."""
    try:
        pid = int((folder / f"{part}.pid").read_text())
    except (OSError, ValueError):
        return None
    command = command_of(pid)
    return pid if str(folder) in command and "defunct" not in command else None


def start(folder, part, arguments):
    with open(folder / f"{part}.log", "ab") as log:
        process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder,
                                   start_new_session=True)  # Ctrl-C in the user's shell does not reach it
    (folder / f"{part}.pid").write_text(f"{process.pid}\n")
    (folder / f"{part}.command").write_text(json.dumps(arguments))
    return process


def kill(folder, part):
    pid = running(folder, part)
    if pid is None:
        raise Failed(f"{part} does not run in {folder}")
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + STOP_SECONDS
    while running(folder, part) is not None and time.monotonic() < until:
        time.sleep(0.02)


def revive(folder, part):
    if running(folder, part) is None:
        process = start(folder, part, json.loads((folder / f"{part}.command").read_text()))
        config = json.loads((folder / "admin.kubeconfig").read_text())
        server = config["clusters"][0]["cluster"]["server"]
        context = ssl.create_default_context(cafile=str(folder / "certs" / "apiserver.crt"))
        token = config["users"][0]["user"]["token"]
        await_true("the API server", folder, part, process, lambda: answers_ok(f"{server}/readyz", context, token))


def stop(folder, part):
    pid = running(folder, part)
    if pid is not None:
        for sent in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(pid, sent)
            except ProcessLookupError:
                break
            until = time.monotonic() + STOP_SECONDS
            while running(folder, part) is not None and time.monotonic() < until:
                try:  # reap it, if it is our own child
                    os.waitpid(pid, os.WNOHANG)
                except ChildProcessError:
                    pass
                time.sleep(0.05)
            if running(folder, part) is None:
                break
        else:
            raise Failed(f"{part} (process {pid}) can't be stopped")
    (folder / f"{part}.pid").unlink(missing_ok=True)


def stop_all(folder):
    for part in ["watch", *reversed(API + CONTROL)]:
        stop(folder, part)


def tail(folder, part):
    try:
        return "\n".join((folder / f"{part}.log").read_text(errors="replace").splitlines()[-8:])
    except OSError:
        return "(no log)"


def await_true(what, folder, part, process, test):
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        if process.poll() is not None:
            raise Failed(f"{part} ended with code {process.returncode}:\n{tail(folder, part)}")
        if test():
            return
        time.sleep(0.05)
    raise Failed(f"{what} took more than {START_SECONDS} s:\n{tail(folder, part)}")


def answers_ok(url, context=None, token=None):
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    try:
        with opener.open(request, timeout=5) as answer:
            return answer.status == 200
    except (urllib.error.URLError, OSError):
        return False


def write_private(path, text):
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)


def kubeconfig(folder, port, token):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "loomplane-bench",
        "contexts": [{"name": "loomplane-bench", "context": {"cluster": "loomplane-bench", "user": "admin"}}],
        "clusters": [{"name": "loomplane-bench", "cluster": {
            "server": f"https://127.0.0.1:{port}",
            "certificate-authority": str(folder / "certs" / "apiserver.crt"),
        }}],
        "users": [{"name": "admin", "user": {"token": token}}],
    }


def signing_key(folder):
    """The service account key pair: made by openssl, which every system has; Python's own library can't."""
    for arguments in (["genrsa", "-out", "sa.key", "2048"], ["rsa", "-in", "sa.key", "-pubout", "-out", "sa.pub"]):
        done = subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(f"openssl {arguments[0]}: {done.stderr.strip()}")


def tools(parts):
    done = subprocess.run([str(ENSURE), *parts], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Failed("a tool is missing; see the lines above")
    return dict(zip(parts, done.stdout.split("\n")))


def stages(folder, heartbeats):
    """kwok's own fast stages, then ours for what goes wrong (stages/*.yaml), and what containers have logged (logs/)."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "loomplane-bench" / "share" / "kwok"
    own = [file for file in sorted(cache.glob("*.yaml")) if heartbeats or "heartbeat" not in file.name]
    files = own + sorted((HERE / "stages").glob("*.yaml"))
    path = folder / "stages.yaml"
    logs = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterLogs", "metadata": {"name": "loomplane"}, "spec": {"logs": [
        {"logsFile": str(HERE / "logs" / "running.log"), "previousLogsFile": str(HERE / "logs" / "previous.log")}]}}
    path.write_text("".join(f"---\n{text}\n" for text in [*(file.read_text() for file in files), json.dumps(logs)]))
    return path


def audit_arguments(folder):
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}],
                                  "omitStages": ["RequestReceived", "ResponseStarted"]}))
    return [f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}", "--audit-log-mode=blocking"]


def up_once(folder, binaries, parts, node_lifecycle, audit):
    client, peer, port, kubelet = free_ports(4)
    url, peers = f"http://127.0.0.1:{client}", f"http://127.0.0.1:{peer}"
    etcd = start(folder, "etcd", [
        binaries["etcd"], "--data-dir", str(folder / "etcd"), "--unsafe-no-fsync",
        "--listen-client-urls", url, "--advertise-client-urls", url, "--listen-peer-urls", peers,
        "--initial-advertise-peer-urls", peers, "--initial-cluster", f"default={peers}"])
    await_true("etcd", folder, "etcd", etcd, lambda: answers_ok(f"{url}/health"))

    signing_key(folder)
    token = secrets.token_hex(16)
    write_private(folder / "tokens.csv", f'{token},admin,admin,"system:masters"\n')
    api = start(folder, "kube-apiserver", [
        binaries["kube-apiserver"], f"--etcd-servers={url}", "--bind-address=127.0.0.1", f"--secure-port={port}",
        f"--cert-dir={folder / 'certs'}", f"--service-account-key-file={folder / 'sa.pub'}",
        f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
        f"--token-auth-file={folder / 'tokens.csv'}", "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",  # no pod of ours needs a mounted token
        *(audit_arguments(folder) if audit else [])])
    certificate = folder / "certs" / "apiserver.crt"
    await_true("the API server's certificate", folder, "kube-apiserver", api,
               lambda: certificate.exists() and "END CERTIFICATE" in certificate.read_text())
    context = ssl.create_default_context(cafile=str(certificate))
    await_true("the API server", folder, "kube-apiserver", api,
               lambda: answers_ok(f"https://127.0.0.1:{port}/readyz", context, token))
    config = folder / "admin.kubeconfig"
    write_private(config, json.dumps(kubeconfig(folder, port, token), indent=2))

    common = [f"--kubeconfig={config}"]
    arguments = {
        "kube-scheduler": ["--leader-elect=false", "--secure-port=0"],
        "kube-controller-manager": ["--leader-elect=false", "--secure-port=0", "--kube-api-qps=200", "--kube-api-burst=400",
                                    "--controllers=*" + ("" if node_lifecycle else ",-node-lifecycle-controller")],
        "kwok": ["--manage-all-nodes=true", f"--config={stages(folder, node_lifecycle)}",
                 f"--server-address=127.0.0.1:{kubelet}"],
    }
    (folder / "kubelet.port").write_text(str(kubelet))  # fleet.py tells it the API server, which asks there for logs
    for part in parts[len(API):]:
        start(folder, part, [binaries[part], *common, *arguments[part]])


def up(folder, parts, while_pid, node_lifecycle, audit):
    if (folder / "admin.kubeconfig").exists() and all(running(folder, part) for part in parts):
        return
    stop_all(folder)
    if folder.exists() and any(folder.iterdir()) and not (folder / ".loomplane-control-plane").exists():
        raise Failed(f"{folder} holds files that are not a control plane's; name another folder")
    binaries = tools(parts)
    for attempt in range(1, TRIES + 1):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, mode=0o700)
        (folder / ".loomplane-control-plane").touch()
        try:
            up_once(folder, binaries, parts, node_lifecycle, audit)
            break
        except Failed as error:
            stop_all(folder)
            if attempt == TRIES or "address already in use" not in str(error):
                raise
            say("a port was taken by another process; trying again")
    if while_pid:
        start(folder, "watch", [sys.executable, str(Path(__file__).resolve()), "watch", str(folder), str(while_pid)])


def alive(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False
    except PermissionError:
        return True


def watch(folder, pid):
    while alive(pid):
        time.sleep(0.5)
    (folder / "watch.pid").unlink(missing_ok=True)  # else stop_all would end this very process first
    down(folder)


def down(folder):
    if not (folder / ".loomplane-control-plane").exists():
        return
    stop_all(folder)
    shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["up", "down", "status", "watch", "kill", "revive"])
    parser.add_argument("dir", type=lambda text: Path(text).resolve())
    parser.add_argument("more", nargs="?", help="the part; for watch the process id")
    parser.add_argument("--api-only", action="store_true")
    parser.add_argument("--node-lifecycle", action="store_true")
    parser.add_argument("--audit", action="store_true")
    parser.add_argument("--while-pid", type=int)
    options = parser.parse_args()
    parts = API if options.api_only else API + CONTROL
    if options.action == "up":
        up(options.dir, parts, options.while_pid, options.node_lifecycle, options.audit)
        print(options.dir / "admin.kubeconfig")
    elif options.action == "down":
        down(options.dir)
    elif options.action == "watch":
        watch(options.dir, int(options.more))
    elif options.action in ("kill", "revive"):
        if options.more not in API + CONTROL:
            parser.error(f"name one of {', '.join(API + CONTROL)}")
        (kill if options.action == "kill" else revive)(options.dir, options.more)
    else:
        found = {part: running(options.dir, part) for part in parts}
        for part, pid in found.items():
            print(f"{part}: {'process ' + str(pid) if pid else 'not running'}")
        return 0 if all(found.values()) else 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as failed:
        say(str(failed))
        sys.exit(1)
