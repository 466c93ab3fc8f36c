#!/usr/bin/env bash
# make bench: builds the release provider and the Go peers, starts API servers with a small and with a large fleet, and prints the
# tables of bench/bench.py (start-up and plans) and bench/apply.py (an apply against kubectl's). BENCH_ROUNDS, BENCH_STARTS;
# BENCH_PROVIDER=BINARY measures another build; BENCH_ARGS=--check holds the goals.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
tools=$root/acceptance-tests/tools/ensure.sh
plane=$root/acceptance-tests/control-plane
"$tools" --check
cd "$root"
provider=${BENCH_PROVIDER:-}
[ -n "$provider" ] || provider=$(scripts/release.sh)
terraform=$("$tools" terraform-cli)
peer=$("$tools" go-peer)
same_schema_peer=$("$tools" go-peer-same-schema)
kubectl=$("$tools" kubectl)
folder=$(mktemp -d)
trap '"$plane/control_plane.py" down "$folder/small"; "$plane/control_plane.py" down "$folder/large"; "$plane/control_plane.py" down "$folder/whole"; rmdir "$folder"' EXIT
kubeconfig=$("$plane/control_plane.py" up "$folder/small" --api-only --while-pid $$)
"$plane/fleet.py" apply "$kubeconfig" acceptance-tests/fleets/small-aws.json
echo "making a fleet of 5,000 nodes (a minute)"
large=$("$plane/control_plane.py" up "$folder/large" --api-only --audit --while-pid $$)
"$plane/fleet.py" apply "$large" acceptance-tests/fleets/large-aws.json
code=0
# shellcheck disable=SC2086  # BENCH_ARGS is a list of options
python3 bench/bench.py --terraform "$terraform" --peer "$peer" --same-schema-peer "$same_schema_peer" --provider "$provider" \
  --kubeconfig "$kubeconfig" --large-kubeconfig "$large" --rounds "${BENCH_ROUNDS:-5}" --starts "${BENCH_STARTS:-30}" ${BENCH_ARGS:-} || code=$?
"$plane/control_plane.py" down "$folder/large"
"$plane/control_plane.py" down "$folder/small"
whole=$("$plane/control_plane.py" up "$folder/whole" --audit --while-pid $$)
"$plane/fleet.py" apply "$whole" acceptance-tests/fleets/small-aws.json
# shellcheck disable=SC2086
python3 bench/apply.py --terraform "$terraform" --provider "$provider" --kubectl "$kubectl" --kubeconfig "$whole" ${BENCH_ARGS:-} || code=$?
exit $code
