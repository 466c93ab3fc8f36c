#!/usr/bin/env bash
# Builds the provider as it is released, and prints the path of the binary; what it does goes to stderr.
#
# On Linux that is a static binary (musl): it runs on every distribution, and has nothing to load or relocate at each of the several
# starts that a plan takes. It needs Rust's musl target and musl-gcc. Where either is missing, or on another system, the build is
# the usual dynamic one, and this says so.
set -euo pipefail
cd "$(dirname "$0")/.."
say() { echo "loomplane: $*" >&2; }

options=(--locked --release --bin terraform-provider-loomplane)
folder=${CARGO_TARGET_DIR:-$PWD/target}
if [ "$(uname -s)" = Linux ]; then
  target=$(uname -m)-unknown-linux-musl
  if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] && command -v rustup >/dev/null; then
    rustup target add "$target" >&2 || true
  fi
  if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ]; then
    say "a dynamic build: Rust's target $target is not installed. Install it: rustup target add $target"
  elif ! command -v musl-gcc >/dev/null; then
    say "a dynamic build: musl-gcc is not on PATH. Install it: apt-get install musl-tools (or your system's musl package)"
  else
    options+=(--target "$target")
    folder=$folder/$target
    # Functions that a plan runs side by side: a third of the memory (scripts/order-functions.py).
    link=(-- -C link-arg=-Wl,-T,scripts/functions.ld)
  fi
fi
say "building the provider as released (minutes: one codegen unit, fat LTO)"
cargo rustc "${options[@]}" ${link[@]+"${link[@]}"} >&2
echo "$folder/release/terraform-provider-loomplane"
