# Kubernetes objects that every cluster starts with; sourced by cluster, never run.
# shellcheck shell=bash disable=SC2154

# There is no controller manager, so the account that every pod needs is made here.
accounts() {
  cat <<'YAML'
{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: default}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: mct-admin, namespace: kube-system}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: mct-agent, namespace: kube-system}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mct-admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: mct-admin, namespace: kube-system}]
---
# All that the agent itself needs; clients bring their own credentials.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: mct-agent}
rules:
- {apiGroups: [""], resources: [services], verbs: [get, list, watch]}
- {apiGroups: [discovery.k8s.io], resources: [endpointslices], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: mct-agent}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: mct-agent}
subjects: [{kind: ServiceAccount, name: mct-agent, namespace: kube-system}]
YAML
}

pod_head() { # NAME
  cat <<YAML
apiVersion: v1
kind: Pod
metadata: {name: $1, namespace: default, labels: {app: $1}}
spec:
  nodeName: $name
  terminationGracePeriodSeconds: 1
  automountServiceAccountToken: false
YAML
}

# counter: a line each 100 ms, an echo of stdin, a shell. helloworld: the probe's HTTP server.
pods() {
  pod_head counter
  cat <<YAML
  containers:
  - name: main
    image: $image
    imagePullPolicy: Never
    stdin: true
    command: [sh, -c]
    args:
    - |
      (i=0; while :; do echo "count \$i"; i=\$((i + 1)); usleep 100000; done) &
      while read -r line; do echo "stdin: \$line"; done
      wait
---
YAML
  pod_head helloworld
  cat <<YAML
  containers:
  - name: main
    image: $image
    imagePullPolicy: Never
    command: [probe, serve, -name, $name, -listen, ":8080"]
    ports: [{containerPort: 8080, name: http}]
    readinessProbe: {httpGet: {path: /ping, port: 8080}, periodSeconds: 1}
YAML
}

# No controller makes the EndpointSlice. The kube-apiserver's own service proxy takes only endpoints that refer to a pod.
service() { # POD-ADDRESS
  cat <<YAML
apiVersion: v1
kind: Service
metadata: {name: helloworld, namespace: default}
spec:
  ports: [{name: http, port: 80, targetPort: 8080}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: helloworld-1, namespace: default, labels: {kubernetes.io/service-name: helloworld}}
addressType: IPv4
endpoints:
- addresses: ["$1"]
  conditions: {ready: true}
  nodeName: $name
  targetRef: {kind: Pod, namespace: default, name: helloworld}
ports: [{name: http, port: 8080, protocol: TCP}]
YAML
}
