//! What it costs the hub to know who asks and whether they may: CPU seconds of its process per request, with a policy of 1,000 rules
//! and 10,000 bindings, to those of a hub that asks nobody, on the same machine and in the same seconds. The one that asks nobody is
//! visited without a credential, which is what is judged, and with it: that tells what checking costs from what a longer head does.

mod credentials;
mod issuer;
mod policy;

use std::path::Path;

use anyhow::Result;

use self::{credentials::Credentials, issuer::Issuer};
use super::{
    Bench,
    rounds::{load_process, number},
};
use crate::{
    process::Process,
    report::line,
    route::Shown,
    subject::{Gate, Kind, Subject, Tunnel, http_target},
    verdict::{Figures, Metric, median},
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
    for round in 1..=bench.plan.rounds * ROUNDS_OF_A_ROUND {
        // With new processes: where their memory lies is luck, which costs as much as what is measured, and has to change often.
        let pair = |name: &str, is_plain: bool| -> Result<Pair> {
            Pair::start(binary, &dir.join(format!("{name}-{round}")), is_plain, &credentials, &address)
        };
        let (plain, tls) = (pair("plain", true)?, pair("tls", false)?);
        let ways = [
            Way { metric: Metric::ApiKeyCpu, pair: &plain, shown: Shown::token(&plain.key) },
            Way { metric: Metric::JwtCpu, pair: &plain, shown: Shown::token(&issuer.token(credentials::USER)?) },
            Way { metric: Metric::CertificateCpu, pair: &tls, shown: credentials.certificate() },
        ];
        for way in &ways {
            let [none, without, with] = way.measure(bench.plan.seconds)?;
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

impl Pair {
    /// Starts both, in front of the same target.
    fn start(binary: &Path, dir: &Path, is_plain: bool, credentials: &Credentials, target: &str) -> Result<Self> {
        let open = Tunnel::start(binary, &dir.join("open"), is_plain, &Gate::Open)?;
        let guarded = Tunnel::start(binary, &dir.join("guarded"), is_plain, &credentials.gate())?;
        let key = guarded.api_key(credentials::USER, &credentials::groups(""))?;
        let ca = |tunnel: &Tunnel| (!is_plain).then(|| tunnel.ca());
        let cas = (ca(&open), ca(&guarded));
        Ok(Self { open: open.with_api(target, None)?, guarded: guarded.with_api(target, None)?, key, cas })
    }
}

/// One kind of credential.
struct Way<'a> {
    metric: Metric,
    pair: &'a Pair,
    shown: Shown,
}

impl Way<'_> {
    /// CPU seconds of the hubs per request: of the one that asks nobody, without and with a credential, and of the one that asks.
    /// They take short turns, in one order and then in the other, so that a change of the machine's mood meets all alike; of its turns
    /// each has the median, so that what else the machine does in some of them meets nobody.
    fn measure(&self, seconds: f64) -> Result<[f64; 3]> {
        let Pair { open, guarded, cas: (open_ca, guarded_ca), .. } = self.pair;
        let turn = seconds / TURNS_OF_A_VISIT;
        let mut clients = [
            Client::start(open, &Shown::default(), open_ca.as_deref(), turn)?,
            Client::start(open, &self.shown, open_ca.as_deref(), turn)?,
            Client::start(guarded, &self.shown, guarded_ca.as_deref(), turn)?,
        ];
        for client in &mut clients {
            client.turn()?;
            client.costs.clear();
        }
        for _ in 0..PAIRS_OF_TURNS {
            clients.iter_mut().try_for_each(Client::turn)?;
            clients.iter_mut().rev().try_for_each(Client::turn)?;
        }
        Ok(clients.map(|client| median(client.costs).unwrap_or_default()))
    }
}

const ROUNDS_OF_A_ROUND: usize = 3;
const TURNS_OF_A_VISIT: f64 = 8.0;
const PAIRS_OF_TURNS: usize = 6;

/// Asks one hub in one way whenever it is its turn.
struct Client<'a> {
    subject: &'a Subject,
    load: Process,
    /// CPU seconds of the hub per request, in each of its turns.
    costs: Vec<f64>,
}

impl<'a> Client<'a> {
    fn start(subject: &'a Subject, shown: &Shown, ca: Option<&Path>, seconds: f64) -> Result<Self> {
        let seconds = seconds.to_string();
        let mut args: Vec<String> =
            ["--mode", "turns", "--streams", CONNECTIONS, "--seconds", &seconds, "--path", PATH]
                .map(str::to_owned)
                .into();
        args.extend(shown.args());
        if let Some(ca) = ca {
            args.extend(["--tls-ca".to_owned(), ca.display().to_string()]);
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        Ok(Self { subject, load: load_process(subject, &args)?, costs: Vec::new() })
    }

    fn turn(&mut self) -> Result<()> {
        let before = self.subject.nearest_cpu_seconds()?;
        let outcome = self.load.turn()?;
        let spent = self.subject.nearest_cpu_seconds()? - before;
        self.costs.push(spent / number(&outcome, "/count")?);
        Ok(())
    }
}
