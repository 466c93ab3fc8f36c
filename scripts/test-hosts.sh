#!/usr/bin/env bash
# make test-hosts: the tests that drive a CLI, once more with the oldest Terraform and OpenTofu that are supported. Not CI's:
# both are built first.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=acceptance-tests/tools/ensure.sh
LOOMPLANE_TEST_TERRAFORM=$("$tools" terraform-1.8)
LOOMPLANE_TEST_TOFU=$("$tools" tofu-1.8)
export LOOMPLANE_TEST_TERRAFORM LOOMPLANE_TEST_TOFU
"$LOOMPLANE_TEST_TERRAFORM" version | head -1
"$LOOMPLANE_TEST_TOFU" version | head -1
scripts/test.sh acceptance
