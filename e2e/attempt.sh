# One check, in a subshell that a failing command ends, with all that it started in the background; sourced, never run.
# shellcheck shell=bash disable=SC2154

# Bash forgets `set -e` in whatever stands in a condition, so the check must not: it runs in the background, and its status is waited for.
# For the same reason, what is given to `eventually` or stands behind `!` fails by its own last command alone.
check() { # NAME COMMAND...
  local name=$1 began=$EPOCHREALTIME
  shift
  [[ $name =~ ${only:-} ]] || return 0
  attempt "$@" >"$work/check.out" 2>&1 &
  if wait $!; then
    passed=$((passed + 1))
    echo "ok $name ($(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.1f s", b - a}')$(sed -n 's/^note: /; /p' "$work/check.said" | tail -n 1))"
  else
    failed=$((failed + 1))
    echo "FAILED $name: $(reason | tr '\n' ' ' | cut -c1-600)"
  fi
}

attempt() { # COMMAND...
  set -eE
  trap 'trap - ERR; cp "$work/check.out" "$work/check.said"; end_jobs; wait' EXIT # what those say who are ended now is of no interest
  trap 'tell "$BASH_COMMAND"' ERR
  "$@"
}

# What was said last, and the command that failed first: those around it fail with it.
reason() {
  grep -v '^failed: ' "$work/check.said" | tail -n 3
  grep '^failed: ' "$work/check.said" | grep -vF -e 'failed: return' -e 'failed: nsenter' | head -n 1
  return 0
}

tell() { echo "failed: ${1%%$'\n'*}" >&2; } # COMMAND, of which some have many lines

# eventually SECONDS COMMAND...: repeats COMMAND until it succeeds or the time is over
eventually() {
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || { echo "gave up waiting for: $*"; return 1; }
    sleep 0.2
  done
}
