//! Where the answers of targets lead: a redirect stays inside its target, for whoever follows it.

#[cfg(test)]
mod tests;

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
