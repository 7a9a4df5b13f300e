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

# counter: a line each 100 ms, an echo of stdin, a shell. helloworld: the probe's server, HTTP and HTTPS.
pods() {
  cat <<YAML
apiVersion: v1
kind: Secret
metadata: {name: helloworld, namespace: default}
type: kubernetes.io/tls
data: {tls.crt: $(base64 -w0 "$pki/helloworld.crt"), tls.key: $(base64 -w0 "$pki/helloworld.key")}
---
YAML
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
    command: [probe, serve, -name, $name, -listen, ":8080", -tls-listen, ":8443", -tls-dir, /tls]
    ports: [{containerPort: 8080, name: http}, {containerPort: 8443, name: https}]
    volumeMounts: [{name: tls, mountPath: /tls}]
    readinessProbe: {httpGet: {path: /ping, port: 8080}, periodSeconds: 1}
  volumes: [{name: tls, secret: {secretName: helloworld}}]
YAML
}

# Pod helloworld is two services: helloworld with a plain and a TLS port, and web, which has one port and need not be told which.
services() { # POD-ADDRESS
  service helloworld "$1" "{name: http, port: 80, targetPort: 8080}, {name: https, port: 8080, targetPort: 8443}" \
    "{name: http, port: 8080}, {name: https, port: 8443}"
  service web "$1" "{name: http, port: 80, targetPort: 8080}" "{name: http, port: 8080}"
}

# No controller makes the EndpointSlice. The kube-apiserver's own service proxy takes only endpoints that refer to a pod.
service() { # NAME POD-ADDRESS PORTS ENDPOINT-PORTS
  cat <<YAML
---
apiVersion: v1
kind: Service
metadata: {name: $1, namespace: default}
spec:
  ports: [$3]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: $1-1, namespace: default, labels: {kubernetes.io/service-name: $1}}
addressType: IPv4
endpoints:
- addresses: ["$2"]
  conditions: {ready: true}
  nodeName: $name
  targetRef: {kind: Pod, namespace: default, name: helloworld}
ports: [$4]
YAML
}
