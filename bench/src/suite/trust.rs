//! What it costs the hub to know who asks and whether they may: CPU seconds of its process per request, with a policy of 1,000 rules
//! and 10,000 bindings, to those of a hub that asks nobody. Both are visited in every round, on the same machine. The one that asks
//! nobody is visited without a credential, which is what is judged, and with it: that tells what checking costs from what a longer head does.

mod credentials;
mod issuer;
mod policy;

use std::path::Path;

use anyhow::Result;

use self::{credentials::Credentials, issuer::Issuer};
use super::{
    Bench,
    rounds::{load, number},
};
use crate::{
    report::line,
    route::Shown,
    subject::{Gate, Kind, Subject, Tunnel, http_target},
    verdict::{Figures, Metric},
};

/// Asked for by everybody; the policy allows it to one user by its role, and by three of its twenty groups.
const PATH: &str = "/api/v1/namespaces/n7/pods/web";
const CONNECTIONS: &str = "32";

pub(crate) fn measure(bench: &Bench<'_>, figures: &mut Figures) -> Result<()> {
    let Some(binary) = bench.mctunnel else { return Ok(()) };
    let dir = bench.dir.join("trust");
    let (_target, address) = http_target(bench.haproxy, &dir)?;
    let issuer = Issuer::start()?;
    let credentials = Credentials::make(&dir, &issuer)?;
    let pair = |name: &str, is_plain: bool| -> Result<Pair> {
        let open = Tunnel::start(binary, &dir.join(format!("{name}-open")), is_plain, &Gate::Open)?;
        let guarded = Tunnel::start(binary, &dir.join(format!("{name}-guarded")), is_plain, &credentials.gate())?;
        let key = guarded.api_key(credentials::USER, &credentials::groups(""))?;
        let ca = |tunnel: &Tunnel| (!is_plain).then(|| tunnel.ca());
        let cas = (ca(&open), ca(&guarded));
        Ok(Pair { open: open.with_api(&address, None)?, guarded: guarded.with_api(&address, None)?, key, cas })
    };
    let (plain, tls) = (pair("plain", true)?, pair("tls", false)?);
    let ways = [
        Way { metric: Metric::ApiKeyCpu, pair: &plain, shown: Shown::token(&plain.key) },
        Way { metric: Metric::JwtCpu, pair: &plain, shown: Shown::token(&issuer.token(credentials::USER)?) },
        Way { metric: Metric::CertificateCpu, pair: &tls, shown: credentials.certificate() },
    ];
    for way in &ways {
        way.visit(bench.plan.seconds.min(0.5))?;
    }
    for round in 1..=bench.plan.rounds {
        for way in &ways {
            // Which one is first matters to neither more often than to the other.
            let [none, without, with] = way.visit_in_turn(bench.plan.seconds, round % 2 == 0)?;
            figures.add(way.metric, Kind::Tunnel, with / none);
            if way.metric == Metric::JwtCpu {
                figures.add(Metric::JwtToSameCpu, Kind::Tunnel, with / without);
            }
            line(&format!(
                "round {round}: {:<55} {:.1} us checked, {:.1} us unchecked, {:.1} us without a credential",
                way.metric.title(),
                with * 1e6,
                without * 1e6,
                none * 1e6
            ))?;
        }
    }
    Ok(())
}

/// A hub that asks nobody, and one that asks everybody, with an agent each.
struct Pair {
    open: Subject,
    guarded: Subject,
    /// An API key of the latter.
    key: String,
    /// The CAs of the two, if they have TLS.
    cas: (Option<std::path::PathBuf>, Option<std::path::PathBuf>),
}

/// One kind of credential.
struct Way<'a> {
    metric: Metric,
    pair: &'a Pair,
    shown: Shown,
}

impl Way<'_> {
    /// CPU seconds of the hubs per request: of the one that asks nobody, without and with a credential, and of the one that asks.
    fn visit_in_turn(&self, seconds: f64, guarded_first: bool) -> Result<[f64; 3]> {
        if guarded_first {
            let with = self.guarded(seconds)?;
            let without = self.open(&self.shown, seconds)?;
            return Ok([self.open(&Shown::default(), seconds)?, without, with]);
        }
        self.visit(seconds)
    }

    fn visit(&self, seconds: f64) -> Result<[f64; 3]> {
        let none = self.open(&Shown::default(), seconds)?;
        Ok([none, self.open(&self.shown, seconds)?, self.guarded(seconds)?])
    }

    fn open(&self, shown: &Shown, seconds: f64) -> Result<f64> {
        per_request(&self.pair.open, shown, self.pair.cas.0.as_deref(), seconds)
    }

    fn guarded(&self, seconds: f64) -> Result<f64> {
        per_request(&self.pair.guarded, &self.shown, self.pair.cas.1.as_deref(), seconds)
    }
}

fn per_request(subject: &Subject, shown: &Shown, ca: Option<&Path>, seconds: f64) -> Result<f64> {
    let seconds = seconds.to_string();
    let mut args: Vec<String> =
        ["--mode", "get", "--streams", CONNECTIONS, "--seconds", &seconds, "--path", PATH].map(str::to_owned).into();
    args.extend(shown.args());
    if let Some(ca) = ca {
        args.extend(["--tls-ca".to_owned(), ca.display().to_string()]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let before = subject.nearest_cpu_seconds()?;
    let outcome = load(subject, &args)?;
    let spent = subject.nearest_cpu_seconds()? - before;
    Ok(spent / number(&outcome, "/count")?)
}
