#!/usr/bin/env bash
# make quickstart: from a fresh clone to a GPU deployment that a real Kubernetes scheduler placed. Every step checks its own
# result; the first that is not as it should be ends the run with exit code 1.
#   quickstart.sh start   local control plane with a small GPU fleet, or, with CLUSTER=mine, the cluster that KUBECONFIG names
#   quickstart.sh stop    destroys what was applied and ends the local control plane
# KIND and COUNT choose the request (nvidia-l4, 1); REFUSED_KIND the one that must be refused.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${LOOMPLANE_QUICKSTART_DIR:-$root/.quickstart}
tools=$root/acceptance-tests/tools/ensure.sh
plane=$root/acceptance-tests/control-plane
mode=${CLUSTER:-local}
work=$folder/work-$mode # a state for each: what is on your cluster must not be mistaken for what is on ours
log=$folder/last-command.log
started=$(date +%s)

step() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
fail() { printf '\nquickstart: %s\n(%s is kept for a look; make quickstart-stop ends and removes it)\n' "$*" "$folder" >&2; exit 1; }

# run CODE TEXT COMMAND...: shows the command and what it prints; its exit code and a text in its output are checked.
run() {
  local code=$1 text=$2 got=0; shift 2
  printf '$ %s\n' "$(basename "$1") ${*:2}"
  "$@" >"$log" 2>&1 || got=$?
  # Core's note that this is a development build, four times the same, is left out
  sed -e '/Warning: Provider development overrides/,/^. *releases\.$\|^releases\.$/d' -e 's/^/  /' "$log"
  [ "$got" = "$code" ] || fail "that command should have ended with exit code $code, and ended with $got"
  # Core wraps messages: compared with the frame and the line ends taken out
  [ -z "$text" ] || tr -s '│╷╵ \n' '     ' <"$log" | tr -s ' ' | grep -qF -- "$text" ||
    fail "that command should have said: $text"
}
cli() { run "$1" "$2" "$terraform" "${@:3}"; }

environment() {
  terraform=$("$tools" terraform-cli)
  cat >"$folder/cli.tfrc" <<RC
provider_installation {
  dev_overrides {
    "loomplane/loomplane" = "$folder/provider"
  }
  direct {}
}
RC
  export TF_CLI_CONFIG_FILE=$folder/cli.tfrc TF_DATA_DIR=$folder/terraform-data TF_IN_AUTOMATION=1 TF_INPUT=0
  export CHECKPOINT_DISABLE=1 TF_CLI_ARGS=-no-color
}

start() {
  local kubeconfig kubectl kind=${KIND:-nvidia-l4} count=${COUNT:-1} refused
  "$tools" --check || fail "install what is missing, then run make quickstart again"
  mkdir -p "$work" "$folder/provider"

  step "Building the provider (debug: quicker to build than release, and quick enough here)"
  (cd "$root" && cargo build --bin terraform-provider-loomplane)
  ln -sf "${CARGO_TARGET_DIR:-$root/target}/debug/terraform-provider-loomplane" "$folder/provider/"
  environment
  kubectl=$("$tools" kubectl)

  if [ "$mode" = mine ]; then
    [ -n "${KUBECONFIG:-}" ] || fail "CLUSTER=mine needs KUBECONFIG to name your cluster"
    case $KUBECONFIG in *:*) fail "KUBECONFIG names several files; name the one of your cluster" ;; esac
    kubeconfig=$KUBECONFIG
    refused=${REFUSED_KIND:-amd-mi300x}
    step "Using your cluster: $("$kubectl" config current-context) of $kubeconfig"
    echo "one Deployment, quickstart-inference, will be made there; make quickstart-stop CLUSTER=mine removes it"
  else
    refused=${REFUSED_KIND:-nvidia-a100-80gb}
    step "Starting a control plane (etcd, API server, scheduler, controllers, kwok for the kubelets) in $folder/control-plane"
    kubeconfig=$("$plane/control_plane.py" up "$folder/control-plane")
    "$plane/fleet.py" apply "$kubeconfig" "$root/acceptance-tests/fleets/small-aws.json"
    export KUBECONFIG=$kubeconfig
    run 0 "" "$kubectl" get nodes -o 'custom-columns=NODE:.metadata.name,TYPE:.metadata.labels.node\.kubernetes\.io/instance-type,GPU:.metadata.labels.nvidia\.com/gpu\.product,COUNT:.status.allocatable.nvidia\.com/gpu,TAINTS:.spec.taints[*].key'
  fi
  echo "$kubeconfig" >"$work/kubeconfig-path"

  cp "$root"/examples/quickstart/*.tf "$work/"
  cd "$work"
  export TF_VAR_config_path=$kubeconfig TF_VAR_gpu_kind=$kind TF_VAR_gpu_count=$count
  if [ -s terraform.tfstate ] && grep -q loomplane_gpu_service terraform.tfstate; then
    step "Removing what an earlier run applied"
    cli 0 "" destroy -auto-approve
  fi

  step "A request that can't be met: $refused is refused at plan, with what was found instead"
  cli 1 "Error:" plan -var "gpu_kind=$refused"
  grep -q "$refused" "$log" || fail "the refusal should have named $refused"

  step "A request that can: the plan says where it may run and what it costs"
  cli 2 "1 to add" plan -detailed-exitcode -out=quickstart.plan
  grep -q 'placement' "$log" || fail "the plan should have shown the placement"
  grep -q 'hourly_usd' "$log" || fail "the plan should have shown the hourly estimate"

  step "Applying that plan"
  cli 0 "Apply complete" apply quickstart.plan

  step "Where the scheduler put it"
  run 0 "quickstart-inference" "$kubectl" get pods --namespace "${TF_VAR_namespace:-default}" -o wide
  local node
  node=$("$kubectl" get pods --namespace "${TF_VAR_namespace:-default}" -o 'jsonpath={range .items[*]}{.metadata.name} {.spec.nodeName}{"\n"}{end}' |
    awk '/^quickstart-inference/ {print $2; exit}')
  [ -n "$node" ] || fail "no pod of quickstart-inference is on a node"
  run 0 "" "$kubectl" get node "$node" --show-labels
  if [ "$mode" != mine ] && [ "$kind" = nvidia-l4 ]; then
    grep -q 'nvidia.com/gpu.product=NVIDIA-L4' "$log" || fail "the pod is on $node, which has no $kind"
  fi

  step "A second plan"
  cli 0 "No changes" plan -detailed-exitcode
  step "Done in $(($(date +%s) - started)) s. The folder is $folder; look around with:"
  echo "  export KUBECONFIG=$kubeconfig"
  echo "  cd $work && export TF_CLI_CONFIG_FILE=$TF_CLI_CONFIG_FILE TF_DATA_DIR=$TF_DATA_DIR TF_VAR_config_path=$kubeconfig && $(basename "$terraform") plan"
  echo "make quickstart-stop ends it."
}

stop() {
  # On the local control plane nothing needs destroying: it goes as a whole. On your cluster what was applied is removed first.
  local mine=$folder/work-mine
  if [ -s "$mine/terraform.tfstate" ] && grep -q loomplane_gpu_service "$mine/terraform.tfstate"; then
    step "Destroying what was applied to your cluster"
    environment
    cd "$mine"
    TF_VAR_config_path=$(cat "$mine/kubeconfig-path")
    export TF_VAR_config_path
    cli 0 "" destroy -auto-approve
    cd "$root"
  fi
  "$plane/control_plane.py" down "$folder/control-plane"
  rm -rf "$folder"
  echo "stopped; $folder is gone"
}

case ${1:-} in
  start) start ;;
  stop) stop ;;
  *) fail "usage: quickstart.sh start | stop" ;;
esac
