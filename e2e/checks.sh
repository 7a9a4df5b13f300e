# One function for each check, run in a subshell with `set -e` for one cluster; sourced by run, never run.
# shellcheck shell=bash disable=SC2154,SC2015,SC2016

fail() { echo "$*"; exit 1; }

# --- kubectl, in the foreground and in the background ---

k() { timeout --foreground -k 5 "${limit:-60}" "${place[@]}" "$kubectl" --kubeconfig "$kubeconfig" --cache-dir "$tmp/cache" "$@"; }

# start OUTPUT KUBECTL-ARGUMENTS...: sets $job
start() {
  local out=$1
  shift
  : >"$out"
  "${place[@]}" "$kubectl" --kubeconfig "$kubeconfig" --cache-dir "$tmp/cache" "$@" >"$out" 2>&1 <&0 &
  job=$!
}

end() { kill "$job" 2>/dev/null || true; wait "$job" 2>/dev/null || true; }

# wait_for PATTERN FILE [SECONDS]
wait_for() {
  local i
  for ((i = 0; i < ${3:-20} * 20; i++)); do
    if grep -qE "$1" "$2"; then return 0; fi
    sleep 0.05
  done
  fail "no '$1' within ${3:-20} s in: $(tail -n 3 "$2")"
}

equal() { [ "$1" = "$2" ] || fail "expected '$2', got '$1'"; } # ACTUAL EXPECTED
digest() { sha256sum | cut -c1-64; }
fetch() { "${place[@]}" curl -fsS --max-time 60 "$@"; } # from where kubectl listens

config_map() { # NAME VALUE
  printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s", "namespace": "default"}, "data": {"value": "%s"}}\n' "$1" "$2"
}

# --- the API ---

host_cannot_reach() {
  local server status=0 port
  server=$(cat "$dir/server")
  server=${server#https://}
  equal "$(in_net "$cluster" curl -sk "https://$server/readyz")" ok
  for port in 6443 10250 2379; do
    curl -sk --connect-timeout 2 "https://${server%:*}:$port/readyz" && fail "the host reaches port $port" || status=$?
    equal "port $port: curl status $status" "port $port: curl status 28"
  done
}

neighbour_cannot_reach() {
  local other status=0
  for other in $clusters; do
    [ "$other" != "$cluster" ] || continue
    status=0
    in_net "$cluster" curl -sk --connect-timeout 2 "$(cat "$state/$other/server")/readyz" && fail "it reaches $other" || status=$?
    equal "curl status $status" "curl status 28"
  done
}

get() {
  equal "$(k get nodes -o name)" "node/$cluster"
  equal "$(k get pod counter -o 'jsonpath={.status.phase}')" Running
  k version -o json >"$tmp/version" 2>/dev/null
  grep -q "\"gitVersion\": \"$new_version\"" "$tmp/version" || fail "the server does not say $new_version"
}

# An old `kubectl get --raw` leaves out the path of the server's URL, so it is given here.
get_raw() {
  local base="" pods=/api/v1/namespaces/default/pods
  [ "$mode" != gateway ] || [ "$kubectl" != "$old_bin/kubectl" ] || base=/$cluster
  k get --raw "$base$pods?fieldSelector=metadata.name%3Dcounter" >"$tmp/pods"
  equal "$(grep -o '"kind":"PodList"\|"name":"counter"\|"name":"helloworld"' "$tmp/pods" | sort -u | tr '\n' ' ')" '"kind":"PodList" "name":"counter" '
  equal "$(k get --raw "$base$pods/http:helloworld:8080/proxy/ping?a=1&b=2")" '/ping?a=1&b=2'
}

refused_token() {
  sed 's/tokenFile: .*}/token: wrong}/' "$kubeconfig" >"$tmp/wrong.kubeconfig"
  k --kubeconfig "$tmp/wrong.kubeconfig" get nodes >"$tmp/out" 2>&1 && fail "a wrong token is taken"
  grep -qiE 'unauthorized|must be logged in' "$tmp/out" || fail "$(cat "$tmp/out")"
}

apply_server_side() {
  config_map "$object" one | k apply --server-side -f - >/dev/null
  config_map "$object" two | k apply --server-side -f - >/dev/null
  equal "$(k get configmap "$object" -o 'jsonpath={.data.value}')" two
  equal "$(k get configmap "$object" --show-managed-fields -o 'jsonpath={.metadata.managedFields[0].operation}')" Apply
}

diff_two_ways() {
  local status=0
  config_map "$object" two | k diff --server-side -f - || fail "a difference where there is none"
  config_map "$object" three | k diff --server-side -f - >"$tmp/diff" || status=$?
  equal "$status" 1
  grep -q '^+.*value: three' "$tmp/diff" || fail "$(cat "$tmp/diff")"
}

watch_changes() {
  k create configmap "$object-w" --from-literal a=1 >/dev/null
  start "$tmp/watch" get configmap --watch --output-watch-events --no-headers
  wait_for "ADDED +$object-w" "$tmp/watch"
  k create configmap "$object-x" --from-literal a=1 >/dev/null
  wait_for "ADDED +$object-x" "$tmp/watch" 5
  k patch configmap "$object-w" -p '{"data":{"a":"2"}}' >/dev/null
  wait_for "MODIFIED +$object-w" "$tmp/watch" 5
  k delete configmap "$object-w" "$object-x" >/dev/null
  wait_for "DELETED +$object-x" "$tmp/watch" 5
  end
}

# A line each 100 ms must arrive as it is written, without a gap and without waiting for more.
logs_follow() {
  local before after
  start "$tmp/logs" logs -f counter --tail 1
  wait_for '^count' "$tmp/logs"
  before=$(wc -l <"$tmp/logs")
  sleep 3
  after=$(wc -l <"$tmp/logs")
  end
  [ $((after - before)) -ge 15 ] || fail "$((after - before)) lines in 3 s"
  awk '/^count/ {if (n != "" && $2 != n + 1) exit 1; n = $2}' "$tmp/logs" || fail "a line is missing"
}

# kubectl proxy leaves out the path of the server's URL unless it is told not to.
proxy() {
  local port prefix=()
  [ "$mode" != gateway ] || prefix=(--append-server-path)
  start "$tmp/proxy" proxy --port 0 "${prefix[@]}"
  wait_for 'Starting to serve on 127.0.0.1:[0-9]+' "$tmp/proxy"
  port=$(grep -oE '[0-9]+$' "$tmp/proxy" | head -n 1)
  fetch "http://127.0.0.1:$port/api/v1/nodes" >"$tmp/nodes"
  grep -q "\"name\": *\"$cluster\"" "$tmp/nodes" || fail "no node $cluster: $(head -c 300 "$tmp/nodes")"
  equal "$(fetch "http://127.0.0.1:$port/api/v1/namespaces/default/services/http:helloworld:80/proxy/ping?q=1")" '/ping?q=1'
  end
}

delete() {
  k delete configmap "$object" >/dev/null
  k get configmap "$object" >"$tmp/out" 2>&1 && fail "it is still there"
  grep -q NotFound "$tmp/out" || fail "$(cat "$tmp/out")"
}

# --- streams to and from a pod ---

exec_stdin() {
  equal "$(head -c 1000000 "$work/payload" | k exec -i counter -- sha256sum | cut -c1-64)" "$(head -c 1000000 "$work/payload" | digest)"
}

exec_status() {
  local status=0
  k exec counter -- sh -c 'echo out; echo err >&2; exit 7' >"$tmp/1" 2>"$tmp/2" || status=$?
  equal "$status $(cat "$tmp/1") $(head -n 1 "$tmp/2")" "7 out err"
}

exec_tty() {
  local command status=0
  printf -v command '%q ' "${place[@]}" "$kubectl" --kubeconfig "$kubeconfig" --cache-dir "$tmp/cache" exec -it counter -- sh
  { sleep 2; echo 'tty; test -t 0 && echo is-a-$((40 + 2))'; sleep 1; echo 'exit 5'; sleep 2; } |
    timeout 30 script -qec "$command" /dev/null >"$tmp/tty" 2>&1 || status=$?
  equal "$status" 5 # the shell's
  grep -q '^/dev/pts/' "$tmp/tty" && grep -q '^is-a-42' "$tmp/tty" || fail "$(cat "$tmp/tty")"
}

attach() {
  local word=word$RANDOM
  mkfifo "$tmp/stdin"
  exec 3<>"$tmp/stdin"
  start "$tmp/attach" attach -i counter <&3
  wait_for '^count' "$tmp/attach"
  echo "$word" >&3
  wait_for "^stdin: $word" "$tmp/attach"
  end
}

copy() { # BYTES
  local limit=300
  head -c "$1" "$work/payload" >"$tmp/payload"
  k cp "$tmp/payload" "default/counter:/tmp/$object" >/dev/null
  equal "$(k exec counter -- sha256sum "/tmp/$object" | cut -c1-64)" "$(digest <"$tmp/payload")"
  k cp "default/counter:/tmp/$object" "$tmp/back" >/dev/null
  equal "$(digest <"$tmp/back")" "$(digest <"$tmp/payload")"
  k exec counter -- rm "/tmp/$object"
}

port_forward() {
  local port i
  start "$tmp/forward" port-forward pod/helloworld :8080
  wait_for 'Forwarding from 127.0.0.1:[0-9]+' "$tmp/forward"
  port=$(grep -oE '127\.0\.0\.1:[0-9]+' "$tmp/forward" | head -n 1)
  for i in 1 2 3; do equal "$(fetch "http://$port/ping?n=$i")" "/ping?n=$i"; done
  equal "$(fetch "http://$port/bytes?n=20000000" | wc -c)" 20000000
  end
}

# by_protocol SUBRESOURCE COMMAND...: the audit log must show the protocol meant: WebSocket is a GET, SPDY a POST
by_protocol() {
  local subresource=$1 before
  shift
  before=$(wc -l <"$dir/audit.log")
  "$@"
  sleep 0.2
  tail -n "+$((before + 1))" "$dir/audit.log" | grep "/pods/[a-z]*/${subresource}[?\"]" | grep -o '"verb":"[a-z]*"' | sort -u >"$tmp/verbs" || true
  case $protocol in
    WebSocket) equal "$(cat "$tmp/verbs")" '"verb":"get"' ;;
    SPDY) equal "$(cat "$tmp/verbs")" '"verb":"create"' ;;
  esac
}

# --- the gateway's own paths ---

service_path() {
  equal "$(api '/api/v1/namespaces/default/services/web/proxy-service/ping?a=1&b=%2F%20c&&d' --fail)" '/ping?a=1&b=%2F%20c&&d'
  equal "$(api '/api/v1/namespaces/default/services/https:helloworld:https/proxy-service/ping?tls' --fail)" '/ping?tls'
  api '/api/v1/namespaces/default/services/http:helloworld:http/proxy-service/ping' --fail -D "$tmp/head" -o /dev/null
  grep -qi "^x-probe-name: $cluster" "$tmp/head" || fail "$(cat "$tmp/head")"
  equal "$(api '/api/v1/namespaces/kube-system/services/other/proxy-service/' -o /dev/null -w '%{http_code}')" 403
}

# Each request of a connection is routed by itself: it is answered by the cluster that it names, in turn.
one_connection() { # CURL-FLAG
  local other told name i=0 asked=() said="" expected="" web=api/v1/namespaces/default/services/web/proxy-service
  for other in $clusters $clusters; do
    asked+=(-o "$tmp/body.$i" "https://$gateway/$other/$web/ping?n=$i")
    expected+="$([ $i = 0 ] && echo 1 || echo 0) 200 $other /ping?n=$i;"
    i=$((i + 1))
  done
  curl "${curl_flags[@]}" "$1" -D "$tmp/heads" -w '%{num_connects} %{http_code}\n' "${asked[@]}" >"$tmp/told"
  sed -n 's/\r$//; s/^x-probe-name: //Ip' "$tmp/heads" >"$tmp/names"
  i=0
  while read -r told <&3 && read -r name <&4; do
    said+="$told $name $(cat "$tmp/body.$i");"
    i=$((i + 1))
  done 3<"$tmp/told" 4<"$tmp/names"
  equal "$said" "$expected"
}

unknown_cluster() {
  local code
  code=$(curl "${curl_flags[@]}" -o "$tmp/out" -w '%{http_code}' "https://$gateway/nowhere/api")
  equal "$code" 404
  grep -q '"kind": *"Status"' "$tmp/out" || fail "$(cat "$tmp/out")"
}

# The agent that was told nothing of its cluster knows it as one in a pod does: it asks with the account of the pod.
found_in_pod() {
  local pid
  read -r pid _ <"$work/agent-$cluster.pid"
  tr '\0' '\n' <"/proc/$pid/cmdline" | grep -E 'kubeconfig|kube-api' && fail "it was told"
  tr '\0' '\n' <"/proc/$pid/environ" | grep '^KUBECONFIG=' && fail "it was told"
  get
  service_path
  grep -F '"username":"system:serviceaccount:kube-system:mct-agent"' "$dir/audit.log" | grep -F '"resource":"endpointslices"' |
    grep -F '"code":200' >"$tmp/asked" || fail "nobody asked: $(tail -n 1 "$work/agent-$cluster.log")"
}

# --- a watch that is older than most connections: it sees nothing until the end ---

long_watch_begins() {
  local version
  k create -f - >/dev/null <<<"$(watched early)"
  for version in "$old_version" "$new_version"; do
    spawn "$work" "watch-$cluster-$version" "${place[@]}" "$cache/$version/kubectl" --kubeconfig "$kubeconfig" --cache-dir "$work/watch-cache" \
      get configmaps -l watched=yes --watch --output-watch-events --no-headers
    disown # it outlives this check
    wait_for '^ADDED +early ' "$work/watch-$cluster-$version.log"
  done
}

watched() { # NAME
  printf '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "%s", "namespace": "default", "labels": {"watched": "yes"}}}' "$1"
}

long_watch_sees_an_event() {
  local version log silent began took=""
  for version in "$old_version" "$new_version"; do
    log=$work/watch-$cluster-$version.log
    alive "$work/watch-$cluster-$version.pid" || fail "the watch of kubectl $version ended: $(tail -n 1 "$log")"
    silent=$(($(date +%s) - $(stat -c %Y "$log")))
  done
  began=$EPOCHREALTIME
  k create -f - >/dev/null <<<"$(watched late)"
  for version in "$old_version" "$new_version"; do
    log=$work/watch-$cluster-$version.log
    wait_for '^ADDED +late ' "$log" 5
    took+=" $(awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {printf "%.2f s", b - a}')"
    equal "$(awk '{print $1, $2}' "$log" | tr '\n' ' ')" "ADDED early ADDED late "
  done
  for version in "$old_version" "$new_version"; do stop "$work/watch-$cluster-$version.pid" KILL; done
  echo "after $silent s without one, within$took of its creation"
}

# --- load ---

storm() { probe storm -watches 150 -requests 1000 "$@"; }

by_way() { # MODE COMMAND...: not by the mode of the run; in a subshell
  local mode=$1
  enter "$cluster"
  "${@:2}"
}

# beside FLAGS...: how much a 1 GB download beside them moves the p99 of small requests, with 150 watches open all the time: in the
# middle one of three rounds at most twofold, or no more than without mctunnel, which is measured first in the same way, from inside
# the cluster.
# With the path gateway the download comes from the service itself; in the other modes the kube-apiserver carries it.
beside() {
  local large='bytes?n=1073741824' through straight direct tunnel
  through=/api/v1/namespaces/default/pods/http:helloworld:8080/proxy/$large straight=$through
  if [ "$mode" = gateway ]; then
    through=/api/v1/namespaces/default/services/web/proxy-service/$large
    straight=http://$(k get pod helloworld -o 'jsonpath={.status.podIP}'):8080/$large
  fi
  direct=$(by_way direct probe beside -rounds 3 -watches 150 -download "$straight" "$@")
  echo "direct: $direct"
  [ "$mode" != direct ] || return 0
  tunnel=$(probe beside -rounds 3 -watches 150 -download "$through" "$@")
  echo "mctunnel: $tunnel"
  [ "$(wc -l <<<"$direct") $(wc -l <<<"$tunnel")" = "3 3" ] || fail "not three rounds each"
  awk '
    function middle(from) {
      a = ratio[from]; b = ratio[from + 1]; c = ratio[from + 2]
      return a < b ? (b < c ? b : (a < c ? c : a)) : (a < c ? a : (b < c ? c : b))
    }
    {
      ratio[NR] = $2 / $1
      text = NR == 1 ? "p99 direct" : NR == 4 ? "; through mctunnel" : ","
      printf "%s %.1f ms alone, %.1f ms beside (%.1fx)", text, $1 / 1000, $2 / 1000, ratio[NR]
    }
    END {
      printf "; in the middle %.1fx direct, %.1fx through mctunnel\n", middle(1), middle(4)
      exit (middle(4) > 2 && middle(4) > middle(1))
    }' <<<"$direct"$'\n'"$tunnel" || exit "$goal_missed"
}

# --- a lost agent: whatever was going on must end in an error, never in a clean end ---

# lost READY COMMAND...: kills the agent once the command's output is READY, a pattern or bytes:N
lost() {
  local ready=$1 status=0 began
  shift
  : >"$tmp/out"
  "$@" >"$tmp/out" 2>"$tmp/err" </dev/null &
  job=$!
  case $ready in
    bytes:*) wait_for_size "${ready#bytes:}" "$tmp/out" ;;
    *) wait_for "$ready" "$tmp/out" ;;
  esac
  began=$SECONDS
  kill_agent "$cluster"
  while kill -0 "$job" 2>/dev/null; do
    [ $((SECONDS - began)) -lt 20 ] || fail "the client still waits after 20 s"
    sleep 0.1
  done
  wait "$job" || status=$?
  start_agent "$cluster"
  await_agent "$cluster"
  [ "$status" != 0 ] || [ -n "${any_status:-}" ] || fail "the client saw a clean end"
  tail -n 1 "$tmp/err"
}

wait_for_size() { # BYTES FILE
  local i
  for ((i = 0; i < 400; i++)); do
    if [ "$(stat -c %s "$2")" -ge "$1" ]; then return 0; fi
    sleep 0.05
  done
  fail "fewer than $1 bytes within 20 s: $(tail -n 1 "$tmp/err")"
}

large='bytes?n=1000000000'
lost_watch() { lost '"type":"ADDED"' api '/api/v1/namespaces/default/pods?watch=1&resourceVersion=0' -N --fail "$1"; }
lost_download() { lost bytes:5000000 api "/api/v1/namespaces/default/pods/http:helloworld:8080/proxy/$large" --fail --limit-rate 10M "$1"; }
lost_logs() { lost '^count' k logs -f counter; }
lost_exec() { lost '^up' k exec counter -- sh -c 'echo up; sleep 100'; }
lost_attach() { lost '^count' k attach counter; }

# kubectl itself takes the end of a SPDY connection, however it came about, for the end of the command, and exits with 0. So
# for SPDY kubectl only has to end, and the probe looks at how the connection does.
lost_spdy() { any_status=yes "$1"; }
lost_upgraded() { # PROTOCOL
  local path='/api/v1/namespaces/default/pods/counter/exec?command=sleep&command=100&stdout=1'
  lost '^up' probe hold -path "$path" -upgrade "$1"
}

lost_port_forward() {
  local port
  start "$tmp/forward" port-forward pod/helloworld :8080
  wait_for 'Forwarding from 127.0.0.1:[0-9]+' "$tmp/forward"
  port=$(grep -oE '127\.0\.0\.1:[0-9]+' "$tmp/forward" | head -n 1)
  lost bytes:5000000 curl -sS --limit-rate 10M "http://$port/$large"
}

# A request made while the agent is away is answered when it is back.
wait_for_agent() {
  local began=$EPOCHREALTIME request
  kill_agent "$cluster"
  k get nodes -o name >"$tmp/out" 2>&1 &
  request=$!
  sleep 1
  start_agent "$cluster"
  wait "$request" || fail "$(cat "$tmp/out")"
  equal "$(cat "$tmp/out")" "node/$cluster"
  awk -v a="$began" -v b="$EPOCHREALTIME" 'BEGIN {printf "answered after %.1f s\n", b - a}'
  await_agent "$cluster"
}

# While one cluster's agent is killed, a stream of the other does not notice.
neighbour_undisturbed() {
  local victim=$cluster other job
  for other in $clusters; do [ "$other" = "$victim" ] || break; done
  enter "$other"
  start "$tmp/logs" logs -f counter --tail 1
  wait_for '^count' "$tmp/logs"
  kill_agent "$victim"
  sleep 1
  start_agent "$victim"
  await_agent "$victim"
  kill -0 "$job" 2>/dev/null || fail "the stream of $other ended: $(tail -n 1 "$tmp/logs")"
  awk '/^count/ {if (n != "" && $2 != n + 1) exit 1; n = $2}' "$tmp/logs" || fail "a line is missing"
  end
}
