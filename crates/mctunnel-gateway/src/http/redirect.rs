//! Where the answers of targets lead: a redirect stays inside its target, for whoever follows it.

use super::answer::Refused;
use http::{HeaderValue, Response, header};

/// Tells the client where an answer leads in the client's own terms: below `prefix`. `asked` is the path the target was asked for.
///
/// Clients resolve paths each in its own way: browsers take `%2e` for a dot, others do not, and whoever asked for a target without the
/// slash behind it begins one level above. So a path is resolved here, as the target meant it, and a redirect that leads out of the
/// target is refused.
pub(super) fn confine<B>(mut response: Response<B>, prefix: &str, asked: &str) -> Result<Response<B>, Refused> {
    let mut locations = response.headers().get_all(header::LOCATION).iter();
    let Some(location) = locations.next() else { return Ok(response) };
    let leads = if locations.next().is_some() { Leads::Out } else { leads(location, prefix, asked) };
    let redirects = response.status().is_redirection();
    match leads {
        Leads::AsTold => {}
        Leads::To(location) => {
            response.headers_mut().insert(header::LOCATION, location);
        }
        Leads::Away if redirects => return Err(Refused::BadAnswer("the target redirects to another host")),
        // What was made elsewhere may be told: nobody is sent there.
        Leads::Away => {}
        Leads::Out if redirects => return Err(Refused::BadAnswer("the target redirects out of its own paths")),
        Leads::Out => {
            response.headers_mut().remove(header::LOCATION);
        }
    }
    Ok(response)
}

#[derive(Debug, PartialEq, Eq)]
enum Leads {
    /// Inside, in the target's own words.
    AsTold,
    /// Inside, in the client's terms.
    To(HeaderValue),
    /// To another host, or to something that readers may take for one.
    Away,
    /// To this host, but not to this target.
    Out,
}

fn leads(location: &HeaderValue, prefix: &str, asked: &str) -> Leads {
    // Browsers drop tabs wherever they stand, and spaces at both ends.
    let Some(text) = location.to_str().ok().filter(|text| !text.contains('\t')) else { return Leads::Away };
    let text = text.trim_matches(' ');
    let has_scheme = text.split(['/', '?', '#']).next().is_some_and(|start| start.contains(':'));
    if text.starts_with("//") || text.contains('\\') || has_scheme {
        return Leads::Away;
    }
    let (path, rest) = text.split_at_checked(text.find(['?', '#']).unwrap_or(text.len())).unwrap_or((text, ""));
    if path.is_empty() {
        return Leads::AsTold;
    }
    let resolved = if path.starts_with('/') {
        without_dots(path)
    } else {
        let above = asked.rsplit_once('/').map_or("", |(above, _)| above);
        without_dots(&format!("{above}/{path}"))
    };
    let prefix = prefix.trim_end_matches('/');
    match resolved {
        None => Leads::Out,
        Some(_) if prefix.is_empty() => Leads::AsTold,
        Some(path) => HeaderValue::from_str(&format!("{prefix}{path}{rest}")).map_or(Leads::Out, Leads::To),
    }
}

/// A path from the root without its segments `.` and `..`, however they are written; `None` if it leads above the root.
fn without_dots(path: &str) -> Option<String> {
    let (mut kept, mut is_directory) = (Vec::new(), false);
    for segment in path.split('/').skip(1) {
        let plain = segment.to_ascii_lowercase().replace("%2e", ".");
        is_directory = matches!(&*plain, "." | "..");
        match &*plain {
            "." => {}
            ".." => {
                kept.pop()?;
            }
            _ => kept.push(segment),
        }
    }
    if is_directory {
        kept.push("");
    }
    Some(format!("/{}", kept.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;

    fn led(location: &str, prefix: &str, asked: &str) -> Leads {
        leads(&HeaderValue::from_str(location).unwrap(), prefix, asked)
    }

    #[test]
    fn t14_paths_are_resolved_as_the_target_meant_them() {
        for (asked, location, expected) in [
            ("/", "/login", "/a/login"),
            ("/", "login", "/a/login"),
            ("/x/y", "login", "/a/x/login"),
            ("/x/y", "../login", "/a/login"),
            ("/x/y/", "../login?next=/../x#/../y", "/a/x/login?next=/../x#/../y"),
            ("/x/y", ".", "/a/x/"),
            ("/x/y", "./%2E", "/a/x/"),
            ("/x/y", "..", "/a/"),
            ("/x/y", "/b/./c/%2e%2E/", "/a/b/"),
            ("/x/y", "/b//../c", "/a/b/c"),
            ("/x/y", "/.//b", "/a//b"),
            ("/x/y", "/...", "/a/..."),
            ("/x/y", "/.%2e.", "/a/.%2e."),
            ("/x/y", " /b ", "/a/b"),
            ("/x/y", "/b c", "/a/b c"),
        ] {
            for prefix in ["/a", "/a/"] {
                assert_eq!(led(location, prefix, asked), Leads::To(HeaderValue::from_static(expected)), "{location}");
            }
        }
        for location in ["", "?a=..", "#/../x"] {
            assert_eq!(led(location, "/a", "/x"), Leads::AsTold, "{location}");
        }
    }

    #[test]
    fn t14_whatever_may_lead_elsewhere_is_seen() {
        for location in [
            "..",
            "../b",
            "./../b",
            "/..",
            "/../b",
            "/%2e%2e/b",
            "/.%2E/b",
            "%2e./b",
            "/x/../../b",
            "x/../../b",
            " ../b",
            "/.././b",
        ] {
            for prefix in ["", "/", "/a"] {
                assert_eq!(led(location, prefix, "/x"), Leads::Out, "{location}");
            }
        }
        for location in [
            "//b",
            " //b",
            "/\t/b",
            "\t..\t/b",
            ".\t./b",
            "/.\t./b",
            "\\\\b",
            "/\\b",
            "https://hub/",
            "x:y",
            "ht\ttp://b",
        ] {
            assert_eq!(led(location, "/a", "/x"), Leads::Away, "{location:?}");
        }
        let not_text = HeaderValue::from_bytes(b"/\xc3\xa9").unwrap();
        assert_eq!(leads(&not_text, "/a", "/x"), Leads::Away);
    }

    #[test]
    fn without_a_prefix_paths_stay_as_they_are_told() {
        for prefix in ["", "/"] {
            for location in ["/login", "login", "/.//b"] {
                assert_eq!(led(location, prefix, "/x"), Leads::AsTold, "{location}");
            }
        }
    }

    #[test]
    fn t14_redirects_are_refused_and_other_answers_lead_nowhere() {
        let answer = |status: u16, locations: &[&str]| {
            let mut response = Response::new(());
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
            for location in locations {
                response.headers_mut().append(header::LOCATION, HeaderValue::from_str(location).unwrap());
            }
            let confined = confine(response, "/a", "/x").ok()?;
            Some(confined.headers().get(header::LOCATION).map(|location| location.to_str().unwrap().to_owned()))
        };
        for status in [300, 301, 302, 303, 305, 307, 308] {
            for locations in [&["/../b"][..], &["//b"], &["/c", "/../b"], &["/c", "/c"]] {
                assert_eq!(answer(status, locations), None, "{status} {locations:?}");
            }
        }
        assert_eq!(answer(201, &["/../b"]), Some(None));
        assert_eq!(answer(201, &["/c", "/../b"]), Some(None));
        assert_eq!(answer(201, &["https://store/c"]), Some(Some("https://store/c".to_owned())));
        assert_eq!(answer(201, &["/c"]), Some(Some("/a/c".to_owned())));
        assert_eq!(answer(302, &[]), Some(None));
    }
}
