//! What to apply in the agent's cluster instead of a command: objects for kubectl, or values for Helm.
//!
//! The agent's token may impersonate users and groups and look up services, and nothing else in its own name. Whom it may impersonate is
//! everybody, unless the manifest is cut down.

use mctunnel::ClusterName;
use std::collections::BTreeMap;

/// ServiceAccount, rights, Secret with the token, a volume for the identity, Deployment.
pub(super) fn objects(cluster: &ClusterName, namespace: &str, image: &str, token: &str) -> String {
    let (namespace, image, token) = (quoted(namespace), quoted(image), quoted(token));
    TEMPLATE
        .replace("@NAMESPACE@", &namespace)
        .replace("@IMAGE@", &image)
        .replace("@TOKEN@", &token)
        .replace("@CLUSTER@", cluster.as_str())
}

/// Values for the chart of the agent.
pub(super) fn values(cluster: &ClusterName, image: &str, labels: &BTreeMap<String, String>, token: &str) -> String {
    let mut text = format!(
        "# Values for the agent of {cluster}. Holds a join token: treat it like a password until it was used.\n\
         cluster: {cluster}\n\
         joinToken: {}\n\
         image: {}\n\
         impersonate: true\n\
         # The identity must outlive the pod: the token may be used once.\n\
         persistence:\n  enabled: true\n  size: 64Mi\n",
        quoted(token),
        quoted(image)
    );
    if !labels.is_empty() {
        text.push_str("clusterLabels:\n");
        for (key, value) in labels {
            text.push_str(&format!("  {}: {}\n", quoted(key), quoted(value)));
        }
    }
    text.trim_end().to_owned()
}

/// As in JSON, which YAML reads too: no text can be anything but text.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

const TEMPLATE: &str = r#"# The agent of @CLUSTER@. Holds a join token: treat it like a password until it was used, then delete the Secret.
apiVersion: v1
kind: Namespace
metadata:
  name: @NAMESPACE@
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: mctunnel-agent
  namespace: @NAMESPACE@
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: mctunnel-agent
rules:
  # To speak for the users that the hub verified. What they may do, the cluster's own rules say. RBAC cannot leave out 'system:', so
  # whoever steals this token can be system:masters. Better: name the users, take "groups" out, and give the agent the same list:
  #   resourceNames: ["corp:alice"]        and below  --impersonate-user=corp:alice
  - apiGroups: [""]
    resources: ["users", "groups"]
    verbs: ["impersonate"]
  # Their uid and extra fields (uids, userextras/KEY): there is no other way to name every key.
  - apiGroups: ["authentication.k8s.io"]
    resources: ["*"]
    verbs: ["impersonate"]
  # To find services.
  - apiGroups: [""]
    resources: ["services"]
    verbs: ["get", "list", "watch"]
  - apiGroups: ["discovery.k8s.io"]
    resources: ["endpointslices"]
    verbs: ["get", "list", "watch"]
  # To report, with --spool: nodes in the status; events with --report-events; logs with --report-logs. Take what is needed.
  # - {apiGroups: [""], resources: ["nodes"], verbs: ["list"]}
  # - {apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["list", "watch"]}
  # - {apiGroups: [""], resources: ["pods"], verbs: ["get", "list", "watch"]}
  # - {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: mctunnel-agent
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: mctunnel-agent
subjects:
  - kind: ServiceAccount
    name: mctunnel-agent
    namespace: @NAMESPACE@
---
apiVersion: v1
kind: Secret
metadata:
  name: mctunnel-join-token
  namespace: @NAMESPACE@
type: Opaque
stringData:
  token: @TOKEN@
---
# The identity must outlive the pod: the token may be used once.
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: mctunnel-agent
  namespace: @NAMESPACE@
spec:
  accessModes: ["ReadWriteOnce"]
  resources:
    requests:
      storage: 64Mi
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: mctunnel-agent
  namespace: @NAMESPACE@
  labels:
    app.kubernetes.io/name: mctunnel-agent
spec:
  replicas: 1
  strategy:
    type: Recreate
  selector:
    matchLabels:
      app.kubernetes.io/name: mctunnel-agent
  template:
    metadata:
      labels:
        app.kubernetes.io/name: mctunnel-agent
    spec:
      serviceAccountName: mctunnel-agent
      terminationGracePeriodSeconds: 40
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        fsGroup: 65532
        # Else the identity would be made readable for the group at every start, and the agent would refuse it.
        fsGroupChangePolicy: OnRootMismatch
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: agent
          image: @IMAGE@
          # Services are reached only with --allow-service NAMESPACE/NAME; add what this cluster offers.
          args:
            - agent
            - --join-token-file=/etc/mctunnel/token
            - --data-dir=/var/lib/mctunnel
            - --impersonate
            - --admin-listen=0.0.0.0:9090
          ports:
            - name: admin
              containerPort: 9090
          readinessProbe:
            httpGet:
              path: /readyz
              port: admin
          livenessProbe:
            httpGet:
              path: /healthz
              port: admin
          resources:
            requests:
              cpu: 50m
              memory: 64Mi
            limits:
              memory: 512Mi
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
          volumeMounts:
            - name: identity
              mountPath: /var/lib/mctunnel
            - name: token
              mountPath: /etc/mctunnel
              readOnly: true
      volumes:
        - name: identity
          persistentVolumeClaim:
            claimName: mctunnel-agent
        - name: token
          secret:
            secretName: mctunnel-join-token
            optional: true
            # 0440
            defaultMode: 288"#;
