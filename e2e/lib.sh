# Logging, processes and waiting, for the scripts of e2e; sourced, never run.
# shellcheck shell=bash

log() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
die() { log "error: $*"; exit 1; }

# A pid alone can be reused by a stranger; pid and start time cannot.
start_time() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d' ' -f20; }

# spawn DIR NAME COMMAND...: in the background, in a session of its own, with DIR/NAME.pid and DIR/NAME.log
spawn() {
  local dir=$1 name=$2
  shift 2
  setsid "$@" >>"$dir/$name.log" 2>&1 </dev/null &
  echo "$! $(start_time $!)" >"$dir/$name.pid"
}

alive() { # PIDFILE
  local pid started
  [ -s "$1" ] && read -r pid started <"$1" && [ -n "$started" ] && [ "$(start_time "$pid")" = "$started" ]
}

# stop PIDFILE [SIGNAL]: does not return before the process is gone
stop() {
  local pid deadline=$((SECONDS + 10))
  if alive "$1"; then
    read -r pid _ <"$1"
    kill -"${2:-TERM}" "$pid" 2>/dev/null || true
    while alive "$1"; do
      [ "$SECONDS" -lt "$deadline" ] || kill -KILL "$pid" 2>/dev/null || true
      sleep 0.05
    done
  fi
  rm -f "$1"
}

# until_ok SECONDS PIDFILE COMMAND...: repeats COMMAND until it succeeds, the process ends or the time is over
until_ok() {
  local deadline=$((SECONDS + $1)) pidfile=$2
  shift 2
  until "$@" >/dev/null 2>&1; do
    alive "$pidfile" || die "$(basename "$pidfile" .pid) ended while waiting for: $*"
    [ "$SECONDS" -lt "$deadline" ] || die "gave up waiting for: $*"
    sleep 0.2
  done
}

# in_net NAME COMMAND...: in the network namespace of cluster NAME, and unlike `ip netns exec` with the same /sys
in_net() {
  local name=$1
  shift
  nsenter --net="/run/netns/mct-$name" "$@"
}

cgroup_mounts() { awk '$3 == "cgroup" || $3 == "cgroup2" {print $2}' /proc/mounts; }
