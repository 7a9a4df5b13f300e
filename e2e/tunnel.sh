# The hub, the agents, and how a client gets to a cluster in each mode; sourced by run, never run.
# shellcheck shell=bash disable=SC2016,SC2034,SC2154

hub_address=10.231.0.1

ready_value() { sed -n "s/.*\"$2\":\"\([^\"]*\)\".*/\1/p" "$1"; } # READY-FILE KEY

start_hub() {
  "$mctunnel" --version >/dev/null || die "no mctunnel at $mctunnel; run make build, or set MCTUNNEL"
  local wait=()
  [ "$mode" != connect ] || wait=(--tunnel-wait 5s) # the gateway waits by default
  spawn "$work" hub "$mctunnel" hub --data-dir "$work/hub" --tunnel-listen "$hub_address:0" \
    --gateway-listen 127.0.0.1:0 --connect-listen 127.0.0.1:0 --sni-listen 127.0.0.1:0 --sni-suffix hub.example.com \
    --admin-listen 127.0.0.1:0 --insecure-no-auth --hub-name 127.0.0.1 --ready-file "$work/hub.ready" "${wait[@]}"
  disown
  until_ok 30 "$work/hub.pid" test -s "$work/hub.ready"
  gateway=$(ready_value "$work/hub.ready" gateway)
  connect=$(ready_value "$work/hub.ready" connect)
  sni=$(ready_value "$work/hub.ready" sni)
  admin=$(ready_value "$work/hub.ready" admin)
  [ "$mode" != gateway ] || [ -n "$gateway" ] || die "$mctunnel has no path gateway; e2e/run --connect does without"
}

add_cluster() { # CLUSTER
  "$mctunnel" cluster add "$1" --data-dir "$work/hub" --hub "$(ready_value "$work/hub.ready" tunnel)" --out "$work/$1.join" >/dev/null
}

# Sets pod, a prefix for what is to find the cluster as in a pod: by two variables, and an account where every pod has it.
enter_pod() { # CLUSTER ADDRESS
  local account=$work/$1.account
  (umask 077 && mkdir -p "$account" && cp "$state/$1/ca.crt" "$account/" && printf %s "$(cat "$state/$1/agent-token")" >"$account/token" &&
    printf kube-system >"$account/namespace")
  pod=(env "KUBERNETES_SERVICE_HOST=${2%:*}" "KUBERNETES_SERVICE_PORT=${2##*:}" unshare --mount sh -c '
    run=$(readlink -f /var/run) && mount -t tmpfs none "$run" && mkdir -p "$run/secrets/kubernetes.io" &&
      cp -r "$0" "$run/secrets/kubernetes.io/serviceaccount" && exec "$@"' "$account")
}

# The agent sees nothing but its own cluster and the hub, and is told only what its mode needs: that of $in_pod not even where its
# cluster is.
start_agent() { # CLUSTER
  local server reach pod=()
  server=$(cat "$state/$1/server")
  case $mode in
    gateway)
      reach=(--allow-service default/helloworld --allow-service default/web)
      if [ "$1" = "${in_pod:-}" ]; then enter_pod "$1" "${server#https://}"; else reach+=(--kubeconfig "$state/$1/agent.kubeconfig"); fi
      ;;
    *) reach=(--allow "tcp://${server#https://}") ;;
  esac
  rm -f "$work/$1.ready"
  spawn "$work" "agent-$1" nsenter --net="/run/netns/mct-$1" "${pod[@]}" \
    "$mctunnel" agent --join "$work/$1.join" --ready-file "$work/$1.ready" "${reach[@]}"
  disown # it outlives the check that starts it
}

await_agent() { until_ok 30 "$work/agent-$1.pid" test -s "$work/$1.ready"; } # CLUSTER
kill_agent() { stop "$work/agent-$1.pid" KILL; }                             # CLUSTER

start_tunnels() {
  local cluster
  [ "$mode" != direct ] || return 0
  start_hub
  for cluster in $clusters; do add_cluster "$cluster"; start_agent "$cluster"; done
  for cluster in $clusters; do await_agent "$cluster"; done
}

stop_tunnels() {
  local pidfile
  for pidfile in "$work"/agent-*.pid "$work/hub.pid"; do [ ! -e "$pidfile" ] || stop "$pidfile" KILL; done
}

# --- clients ---

# Sets what the functions below use to reach CLUSTER: url, ca, place (a command prefix), proxy, kubeconfig, curl_flags, probe_flags.
# Two modes are for kubectl alone: end-to-end as the documentation has it, through the CONNECT listener, and by the name in the SNI.
enter() { # CLUSTER
  cluster=$1 dir=$state/$1 place=() curl_flags=() probe_flags=() proxy="" kubeconfig=$work/$1.$mode.kubeconfig
  url=$(cat "$dir/server") ca=$dir/ca.crt
  case $mode in
    direct) place=(nsenter --net="/run/netns/mct-$cluster") ;;
    gateway) url=https://$gateway/$cluster ca=$(find "$work/hub" -name ca.pem) ;;
    connect)
      proxy=http://$connect
      curl_flags=(--proxy "$proxy" --proxy-header "x-mctunnel-cluster: $cluster")
      url=${url/:6443/.$cluster.mctunnel:6443}
      probe_flags=(-server-name kubernetes)
      ;;
    end-to-end) proxy=http://$connect url=https://$cluster.mctunnel:443 ;;
    sni)
      url=https://$cluster.hub.example.com:${sni##*:}
      place=(unshare --mount sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$work/sni.hosts")
      ;;
  esac
  curl_flags+=(-sS --max-time 120 --cacert "$ca" -H "@$work/$cluster.header")
  probe_flags+=(-server "$url" -token-file "$dir/token" -ca-file "$ca")
}

# The same bearer token in every mode: a gateway that ends TLS cannot pass on a client certificate.
write_client_files() { # CLUSTER [MODE]
  local extra="" name mode=${2:-$mode}
  enter "$1"
  [ "$mode" != sni ] || { cat /etc/hosts; for name in $clusters; do echo "127.0.0.1 $name.hub.example.com"; done; } >"$work/sni.hosts"
  [ -z "$proxy" ] || extra=$(printf '    %s\n' "proxy-url: http://$connect" "tls-server-name: kubernetes")
  echo "Authorization: Bearer $(cat "$dir/token")" >"$work/$1.header"
  cat >"$kubeconfig" <<YAML
apiVersion: v1
kind: Config
current-context: $1
clusters:
- name: $1
  cluster:
    server: $url
    certificate-authority: $ca
$extra
contexts:
- name: $1
  context: {cluster: $1, user: user}
users:
- name: user
  user: {tokenFile: $dir/token}
YAML
}

# Requests with curl: the CONNECT proxy takes the cluster from a header, so the URL may name the real address.
api() { # PATH CURL-FLAGS...
  local path=$1 base=$url
  shift
  [ "$mode" != connect ] || base=$(cat "$dir/server")
  "${place[@]}" curl "${curl_flags[@]}" "$@" "$base$path"
}

probe() { HTTPS_PROXY=$proxy "${place[@]}" "$cache/probe" "$1" "${probe_flags[@]}" "${@:2}"; } # COMMAND FLAGS...
