# Where the tools are and which versions they have; sourced, never run.
# shellcheck shell=bash disable=SC2034

e2e=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/mctunnel-e2e

# The go.mod files are the only place that names a version.
kubernetes_version() { grep -oPm1 '^(require)?\s*k8s\.io/kubernetes \Kv\S+' "$e2e/$1/go.mod"; }

new_version=$(kubernetes_version tools)
old_version=$(kubernetes_version tools-old)
new_bin=$cache/$new_version
old_bin=$cache/$old_version
