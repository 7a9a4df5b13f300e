# What run and soak share: clusters up and down, and processes that must not outlive the script; sourced, never run.
# shellcheck shell=bash disable=SC2154

# Sets work and state. Whatever the script starts from here on ends with it.
begin() {
  [ "$(id -u)" = 0 ] || die "network namespaces need root"
  "$here/build" --check || die "run e2e/build first"
  work=$(mktemp -d /tmp/mctunnel-e2e.XXXXXX)
  state=$work/clusters
  export E2E_STATE=$state
  unset KUBECONFIG HTTPS_PROXY https_proxy # only what a check says shall count
  trap teardown EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
}

start_clusters() {
  local cluster jobs=() job
  for cluster in $clusters; do
    "$here/cluster" up "$cluster" >/dev/null &
    jobs+=($!)
  done
  for job in "${jobs[@]}"; do wait "$job" || die "a cluster did not start; --keep leaves its logs"; done
}

teardown() {
  local status=$? cluster
  trap '' INT TERM
  trap - EXIT
  end_jobs
  stop_tunnels
  [ -z "${hub_network:-}" ] || remove_hub_network
  if [ "$keep" = yes ]; then
    mkdir -p "$work/logs"
    for cluster in $clusters; do cp "$state/$cluster"/*.log "$work/logs/" 2>/dev/null || true; done
  fi
  for cluster in $clusters; do "$here/cluster" down "$cluster" || status=1; done
  end_leftovers
  if [ "$keep" = yes ]; then log "logs are in $work"; else rm -rf "$work"; fi
  exit "$status"
}

end_jobs() {
  local job
  for job in $(jobs -p); do kill_tree "$job"; done
}

kill_tree() { # PID
  local child
  for child in $(pgrep -P "$1" || true); do kill_tree "$child"; done
  kill "$1" 2>/dev/null || true
}

# Whatever still runs with this run's E2E_STATE in its environment was started by it.
end_leftovers() {
  local process
  for process in /proc/[0-9]*; do
    [ "$process" != "/proc/$$" ] || continue
    if grep -qzxF "E2E_STATE=$state" "$process/environ" 2>/dev/null; then kill -KILL "${process#/proc/}" 2>/dev/null || true; fi
  done
}
