#!/usr/bin/env bash
# make bench: builds the release provider and the Go peer, starts an API server with a small fleet, and prints the table of
# bench/bench.py. BENCH_ROUNDS, BENCH_STARTS; BENCH_PROVIDER=BINARY measures another build; BENCH_ARGS=--check holds the goals.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/acceptance-tests/tools/ensure.sh
plane=$root/acceptance-tests/control-plane
"$tools" --check
cd "$root"
provider=${BENCH_PROVIDER:-}
if [ -z "$provider" ]; then
  echo "building the release provider (minutes: one codegen unit, fat LTO)"
  cargo build --locked --release --bin terraform-provider-loomplane
  provider=${CARGO_TARGET_DIR:-$root/target}/release/terraform-provider-loomplane
fi
terraform=$("$tools" terraform-cli)
peer=$("$tools" go-peer)
folder=$(mktemp -d)/control-plane
kubeconfig=$("$plane/control_plane.py" up "$folder" --api-only --while-pid $$)
"$plane/fleet.py" apply "$kubeconfig" acceptance-tests/fleets/small-aws.json
code=0
# shellcheck disable=SC2086  # BENCH_ARGS is a list of options
python3 bench/bench.py --terraform "$terraform" --peer "$peer" --provider "$provider" --kubeconfig "$kubeconfig" \
  --rounds "${BENCH_ROUNDS:-5}" --starts "${BENCH_STARTS:-30}" ${BENCH_ARGS:-} || code=$?
"$plane/control_plane.py" down "$folder"
rmdir "$(dirname "$folder")"
exit $code
