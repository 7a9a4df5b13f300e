//! The resources that Kubernetes itself has, with their group and whether they live in a namespace. Used to find slips of the pen, to
//! complete questions, and to know what a namespace's deny rule cannot mean; no rule is ever widened by it.

/// A resource of Kubernetes' own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BuiltIn {
    pub(crate) resource: &'static str,
    pub(crate) group: &'static str,
    pub(crate) is_namespaced: bool,
}

/// Finds a resource by its name, in the group if one is given.
pub(crate) fn find(resource: &str, group: Option<&str>) -> Option<BuiltIn> {
    all().find(|own| own.resource == resource && group.is_none_or(|group| own.group == group))
}

/// Whether objects of the resource certainly live outside of namespaces.
pub(crate) fn is_cluster_wide(group: &str, resource: &str) -> bool {
    group == REPORTS || find(resource, Some(group)).is_some_and(|own| !own.is_namespaced)
}

/// The group of the kinds of reports that are not Kubernetes' own. They are at the hub, and in no namespace.
const REPORTS: &str = "reports.mctunnel.io";

/// Every resource of Kubernetes' own.
pub(crate) fn all() -> impl Iterator<Item = BuiltIn> {
    let resources = |table: &'static [(&str, &str)], is_namespaced| {
        table.iter().flat_map(move |(group, resources)| {
            resources.split(' ').map(move |resource| BuiltIn { resource, group, is_namespaced })
        })
    };
    resources(NAMESPACED, true).chain(resources(CLUSTER_WIDE, false))
}

/// Subresources that join the client to a process or a network: their one verb is `connect`.
pub(crate) const CONNECTING: &[&str] = &["exec", "attach", "portforward", "proxy"];

const NAMESPACED: &[(&str, &str)] = &[
    (
        "",
        "bindings configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates \
         replicationcontrollers resourcequotas secrets serviceaccounts services",
    ),
    ("apps", "controllerrevisions daemonsets deployments replicasets statefulsets"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("autoscaling", "horizontalpodautoscalers"),
    ("batch", "cronjobs jobs"),
    ("coordination.k8s.io", "leases"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("networking.k8s.io", "ingresses networkpolicies"),
    ("policy", "poddisruptionbudgets"),
    ("rbac.authorization.k8s.io", "rolebindings roles"),
    ("storage.k8s.io", "csistoragecapacities"),
];

const CLUSTER_WIDE: &[(&str, &str)] = &[
    ("", "componentstatuses namespaces nodes persistentvolumes"),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings \
         validatingwebhookconfigurations",
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices"),
    ("authentication.k8s.io", "selfsubjectreviews tokenreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews selfsubjectrulesreviews subjectaccessreviews"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas prioritylevelconfigurations"),
    ("networking.k8s.io", "ingressclasses ipaddresses servicecidrs"),
    ("node.k8s.io", "runtimeclasses"),
    ("rbac.authorization.k8s.io", "clusterrolebindings clusterroles"),
    ("scheduling.k8s.io", "priorityclasses"),
    ("storage.k8s.io", "csidrivers csinodes storageclasses volumeattachments"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_knows_groups_and_scopes() {
        for (resource, group, is_namespaced) in [
            ("pods", "", true),
            ("nodes", "", false),
            ("namespaces", "", false),
            ("deployments", "apps", true),
            ("clusterroles", "rbac.authorization.k8s.io", false),
        ] {
            assert_eq!(find(resource, None), Some(BuiltIn { resource, group, is_namespaced }));
            assert_eq!(is_cluster_wide(group, resource), !is_namespaced);
        }
        assert_eq!(find("things", None), None);
        assert!(is_cluster_wide("reports.mctunnel.io", "deploys"), "reports of programs are in no namespace");
        assert!(!is_cluster_wide("example.com", "nodes"), "the same word in another group is another resource");
    }
}
