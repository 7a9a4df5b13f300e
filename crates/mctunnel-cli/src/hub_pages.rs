//! What the gateway of a hub answers itself, below `/-/`: which pages there are, and who answers each.

use crate::{
    can_i::page::CanIPage,
    report_api::{OPENAPI, ReportApi},
};
use mctunnel::gateway::http::{Answering, Asking, NoPage, OwnPages, Page};
use mctunnel_core::Decision;

/// The pages of a hub.
pub(crate) struct HubPages {
    /// None without a policy that could be asked.
    pub(crate) can_i: Option<CanIPage>,
    pub(crate) reports: ReportApi,
}

impl OwnPages for HubPages {
    fn answer<'a>(&'a self, asking: &'a Asking<'_>) -> Answering<'a> {
        Box::pin(async move {
            let (route, parts) = Route::find(asking.path).ok_or(NoPage::Unknown)?;
            if route == Route::CanI && self.can_i.is_none() {
                return Err(NoPage::Unknown);
            }
            if asking.method != route.method() {
                return Err(NoPage::Bad(format!("it is asked with {}", route.method())));
            }
            // A cluster judges once more what it is asked; here nobody does. Without a policy the hub was told to ask nobody.
            if route.shows_reports() && self.can_i.is_some() && asking.identity.user().is_none() {
                return Err(NoPage::Refused(Decision::denied(
                    "reports are shown to clients that are known: send a credential",
                )));
            }
            match (route, &self.can_i) {
                (Route::CanI, Some(can_i)) => can_i.answer(asking).map(Page::json),
                (Route::CanI, None) => Err(NoPage::Unknown),
                (Route::OpenApi, _) => Ok(Page::json(OPENAPI)),
                (Route::Clusters, _) => self.reports.clusters(asking).await,
                (Route::Reports, _) => self.reports.reports(asking).await,
                (Route::Events, _) => self.reports.events(asking).await,
                (Route::Logs, _) => self.reports.logs(asking, &parts).await,
            }
        })
    }
}

/// A page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    CanI,
    OpenApi,
    Clusters,
    Reports,
    Events,
    Logs,
}

impl Route {
    const ALL: [Self; 6] = [Self::CanI, Self::OpenApi, Self::Clusters, Self::Reports, Self::Events, Self::Logs];

    /// Its path below `/-/`; what is in braces is any one part.
    const fn path(self) -> &'static str {
        match self {
            Self::CanI => "can-i",
            Self::OpenApi => "openapi.json",
            Self::Clusters => "v1/clusters",
            Self::Reports => "v1/reports",
            Self::Events => "v1/events",
            Self::Logs => "v1/logs/{cluster}/{namespace}/{pod}",
        }
    }

    const fn method(self) -> &'static str {
        match self {
            Self::CanI => "POST",
            Self::OpenApi | Self::Clusters | Self::Reports | Self::Events | Self::Logs => "GET",
        }
    }

    const fn shows_reports(self) -> bool {
        match self {
            Self::CanI | Self::OpenApi => false,
            Self::Clusters | Self::Reports | Self::Events | Self::Logs => true,
        }
    }

    /// The page of a path, with the parts that stand for those in braces.
    fn find(path: &str) -> Option<(Self, Vec<&str>)> {
        Self::ALL.into_iter().find_map(|route| Some((route, matched(route.path(), path)?)))
    }
}

fn matched<'a>(form: &str, path: &'a str) -> Option<Vec<&'a str>> {
    let (mut form, mut path, mut parts) = (form.split('/'), path.split('/'), Vec::new());
    loop {
        match (form.next(), path.next()) {
            (None, None) => return Some(parts),
            (Some(wanted), Some(part)) if wanted.starts_with('{') => parts.push(part),
            (Some(wanted), Some(part)) if wanted == part => {}
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_api::parameters;
    use serde_json::Value;
    use std::collections::BTreeSet;

    /// The names of what is in the path or in the query.
    fn named(page: &Value, place: &str) -> BTreeSet<String> {
        let all = page["parameters"].as_array().into_iter().flatten();
        let of_place = all.filter(|parameter| parameter["in"] == place);
        of_place.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_document_has_the_pages_that_exist_with_their_parameters_and_no_others() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        assert_eq!(document["openapi"], "3.1.0");
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
        let paths = document["paths"].as_object().unwrap();
        let documented: BTreeSet<(String, String)> = paths
            .iter()
            .flat_map(|(path, methods)| {
                methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone()))
            })
            .collect();
        let existing = Route::ALL.map(|route| (format!("/-/{}", route.path()), route.method().to_ascii_lowercase()));
        assert_eq!(documented, BTreeSet::from(existing.clone()));
        for (route, (path, method)) in Route::ALL.into_iter().zip(existing) {
            let page = &document["paths"][&path][&method];
            let taken: BTreeSet<String> = parameters(route).iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(named(page, "query"), taken, "{path}");
            let in_braces = route.path().split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
            assert_eq!(named(page, "path"), in_braces.map(str::to_owned).collect(), "{path}");
            let answers: BTreeSet<_> = page["responses"].as_object().unwrap().keys().cloned().collect();
            assert!(answers.contains("200") && answers.contains("401"), "{path}: {answers:?}");
        }
    }

    #[test]
    fn every_reference_of_the_document_leads_somewhere() {
        let document: Value = serde_json::from_str(OPENAPI).unwrap();
        let references: Vec<&str> =
            OPENAPI.split("\"$ref\"").skip(1).map(|rest| rest.split('"').nth(1).unwrap()).collect();
        assert!(references.len() > 5);
        for reference in references {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }

    #[test]
    fn a_path_has_one_page_or_none() {
        assert_eq!(Route::find("v1/logs/c/n/p"), Some((Route::Logs, vec!["c", "n", "p"])));
        assert_eq!(Route::find("can-i"), Some((Route::CanI, vec![])));
        for path in ["", "can-i/", "can-i2", "v1", "v1/logs/c/n", "v1/logs/c/n/p/x", "v1/events/", "metrics"] {
            assert_eq!(Route::find(path), None, "{path}");
        }
    }
}
