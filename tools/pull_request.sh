#!/usr/bin/env bash
# Hands the inputs of the action (action.yml), which are in the environment, to pull_request.py.
set -euo pipefail
read -r -a options <<<"${OPTIONS:-}"
comment=()
if [ "${COMMENT:-}" = true ]; then comment=(--comment); fi
# A shallow checkout has not the commit that the branch began at.
if [ "$(git rev-parse --is-shallow-repository)" = true ]; then git fetch --quiet --unshallow; fi
exec "${PYTHON:-python}" "$(dirname "$0")/pull_request.py" --base "$BASE" --cluster "$CLUSTER" --files "$FILES" \
    --model "${MODEL:-}" --fail-above "${FAIL_ABOVE:-10%}" ${comment[@]+"${comment[@]}"} -- ${options[@]+"${options[@]}"}
