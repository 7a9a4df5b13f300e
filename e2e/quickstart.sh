# The quick start, literally: its three lines, in a network where hub.example.com is the hub; sourced by run, never run.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154

quick_hub=10.231.0.2

# A machine for the hub, beside those of the clusters: its default ports are free there.
make_hub_network() {
  hub_network=made
  ip netns add mct-hub
  ip link add mct-hub type veth peer name eth0 netns mct-hub
  ip link set mct-hub master mct-e2e up
  ip -n mct-hub addr add "$quick_hub/24" dev eth0
  ip -n mct-hub link set eth0 up
  ip -n mct-hub link set lo up
  { cat /etc/hosts; echo "$quick_hub hub.example.com"; } >"$work/hosts"
}

remove_hub_network() {
  ip netns del mct-hub 2>/dev/null || true
  ip link del mct-hub 2>/dev/null || true
}

# as_written LINE [PREFIX...]: runs the line in the repository, in a shell that knows hub.example.com
as_written() {
  local line=$1
  shift
  (cd "$here/.." && "$@" unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec sh -c "$1"' "$work/hosts" "$line")
}

eventually() { # SECONDS COMMAND...
  local deadline=$((SECONDS + $1))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$deadline" ] || fail "gave up waiting for: $*; $(tail -n 2 "$tmp/hub.log" "$tmp/agent.log" 2>&1)"
    sleep 0.2
  done
}

hub_is_ready() { in_net hub curl -fs --max-time 5 http://127.0.0.1:9090/readyz >/dev/null; }
agent_is_there() { in_net hub curl -fs --max-time 5 http://127.0.0.1:9090/metrics | grep -q '^mctunnel_tunnels 1$'; }

# The environment says where the hub's files go and where the cluster is; the lines are those of the quick start.
quick_start() {
  local answer
  unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL HUB_ADDR CLUSTER_NAME HUB_TRUST HUB_FLAGS AGENT_FLAGS JOIN ALLOW ALLOW_SERVICE PIN_SERVICE INSECURE_SERVICE
  export DATA_DIR=$tmp/hub KUBECONFIG=$dir/agent.kubeconfig
  # Nothing is built: make finds the binary that all the others are checked with where it would have built one.
  mkdir -p "$tmp/target/release"
  ln -s "$mctunnel" "$tmp/target/release/mctunnel"
  export CARGO=true CARGO_TARGET_DIR=$tmp/target
  as_written 'make run-hub' in_net hub >"$tmp/hub.log" 2>&1 &
  eventually 60 hub_is_ready
  as_written 'make run-agent HUB_ADDR="hub.example.com:8443" CLUSTER_NAME="cluster-a"' in_net "$cluster" >"$tmp/agent.log" 2>&1 &
  eventually 60 agent_is_there
  answer=$(as_written 'curl -k "https://hub.example.com:8080/cluster-a/api/v1/namespaces/default/services/https:helloworld:8080/proxy-service/ping?time-out=32s"' 2>"$tmp/curl.log") ||
    fail "$(cat "$tmp/curl.log")"
  equal "$answer" '/ping?time-out=32s'
  echo "answered $answer"
}
