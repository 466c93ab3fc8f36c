#!/usr/bin/env bash
# make test: everything that tests, cheapest first, so that a slip shows in seconds.
#   test.sh [lint | unit | acceptance]...    only these parts; all without an argument
# With CI=true a part of the bench that can't start fails the run instead of being skipped.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
cd "$root"
tools=$root/acceptance-tests/tools/ensure.sh
plane=$root/acceptance-tests/control-plane/control_plane.py
step() { printf '\n== %s (%s s)\n' "$*" "$SECONDS"; }

lint() {
  step "formatting"; cargo fmt --all --check
  step "clippy"; cargo clippy --workspace --all-targets --locked -- -D warnings
  local deny; deny=$("$tools" cargo-deny)
  step "cargo deny: bans, licenses, sources"; "$deny" --all-features --locked check bans licenses sources
}

unit() {
  step "unit and property tests"
  # Always the whole workspace: a package alone has other features, and its dependencies would be built a second time.
  local nextest; nextest=$("$tools" cargo-nextest)
  LOOMPLANE_FUZZ_SECONDS=${LOOMPLANE_FUZZ_SECONDS:-$([ "${CI:-}" = true ] && echo 30 || echo 2)} \
    "$nextest" nextest run --workspace --locked --no-tests=pass -E 'not binary(acceptance)'
  cargo test --workspace --locked --doc
}

# again LOG: real parts with real time limits fail now and then on a busy machine. At most three failed tests are run once more,
# one at a time, and named; what fails twice has failed.
again() {
  local failed; mapfile -t failed < <(sed -n 's/^test \(.*\) \.\.\. FAILED$/\1/p' "$1")
  [ ${#failed[@]} -gt 0 ] && [ ${#failed[@]} -le 3 ] || return 1
  step "once more, one at a time: ${failed[*]}"
  cargo test --workspace --locked --test acceptance -- --test-threads=1 --exact "${failed[@]}"
}

acceptance() {
  local folder=
  step "tools of the bench"
  "$tools" terraform-cli tofu etcd kube-apiserver kube-scheduler kube-controller-manager kwok >/dev/null
  cargo test --workspace --locked --test acceptance --no-run
  if [ -z "${LOOMPLANE_TEST_KUBECONFIG:-}" ]; then
    step "control plane"
    folder=$(mktemp -d)/control-plane
    # It ends with this script, however that ends.
    LOOMPLANE_TEST_KUBECONFIG=$("$plane" up "$folder" --while-pid $$)
    export LOOMPLANE_TEST_KUBECONFIG
    "$(dirname "$plane")/fleet.py" apply "$LOOMPLANE_TEST_KUBECONFIG" acceptance-tests/fleets/small-aws.json
  fi
  step "acceptance tests"
  local code=0
  local log; log=$(mktemp)
  cargo test --workspace --locked --test acceptance -- --test-threads="${LOOMPLANE_TEST_THREADS:-4}" 2>&1 | tee "$log" || code=$?
  if [ $code != 0 ]; then again "$log" && code=0; fi
  rm -f "$log"
  if [ -n "$folder" ]; then
    if [ $code != 0 ]; then echo "the control plane's last lines:"; tail -n 3 "$folder"/*.log || true; fi
    "$plane" down "$folder"
    rmdir "$(dirname "$folder")"
  fi
  return $code
}

"$tools" --check
[ $# -gt 0 ] || set -- lint unit acceptance
for part; do
  case $part in
    lint | unit | acceptance) "$part" ;;
    *) echo "usage: test.sh [lint | unit | acceptance]..." >&2; exit 2 ;;
  esac
done
step "all passed"
