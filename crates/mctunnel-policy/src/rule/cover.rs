//! When one rule makes another one superfluous: for the check of a policy, never for a decision.

use super::{Deeds, Rule};

impl Rule {
    /// Whether this rule certainly has all that the other one has.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.clusters.includes(&other.clusters) && self.deeds.include(&other.deeds)
    }
}

impl Deeds {
    fn include(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Resources { verbs, api_groups, resources, namespaces, names },
                Self::Resources {
                    verbs: their_verbs,
                    api_groups: their_groups,
                    resources: theirs,
                    namespaces: their_namespaces,
                    names: their_names,
                },
            ) => {
                verbs.includes(*their_verbs)
                    && api_groups.includes(their_groups)
                    && resources.includes(theirs)
                    && namespaces.includes(their_namespaces)
                    && names.includes(their_names)
            }
            (Self::Paths { verbs, paths }, Self::Paths { verbs: their_verbs, paths: theirs }) => {
                verbs.includes(*their_verbs) && paths.includes(theirs)
            }
            (
                Self::Http { targets, methods, paths, protocols },
                Self::Http { targets: theirs, methods: their_methods, paths: their_paths, protocols: their_protocols },
            ) => {
                targets.includes(theirs)
                    && methods.includes(their_methods)
                    && paths.includes(their_paths)
                    && protocols.includes(their_protocols)
            }
            (Self::Bytes { targets, protocols }, Self::Bytes { targets: theirs, protocols: their_protocols }) => {
                targets.includes(theirs) && protocols.includes(their_protocols)
            }
            (
                Self::Resources { .. } | Self::Paths { .. } | Self::Http { .. } | Self::Bytes { .. },
                Self::Resources { .. } | Self::Paths { .. } | Self::Http { .. } | Self::Bytes { .. },
            ) => false,
        }
    }
}
