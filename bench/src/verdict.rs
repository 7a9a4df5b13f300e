//! The figures of a run, the bars they are held to, and whether they pass.

use std::collections::BTreeMap;

use crate::subject::Kind;

/// Everything that is measured, in the order of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Metric {
    DownRate,
    UpRate,
    DownCpu,
    UpCpu,
    PingP50,
    PingP99,
    Open1,
    Open8,
    Open64,
    OpenFailures,
    MixedIdlePing,
    MixedPing,
    MixedRate,
    Jain,
    StallRate,
    StallPing,
    Get32Rate,
    Get32P50,
    Get32P99,
    Get1Rate,
    Get1P50,
    Get1P99,
    FirstGet,
    ApiKeyCpu,
    JwtCpu,
    JwtToSameCpu,
    CertificateCpu,
    IdleStreamNear,
    IdleStreamFar,
    IdleAgent,
    ReportRate,
    ReportWire,
    ReportMemory,
    CatchUpRate,
    CatchUpPing,
    CaughtUpPing,
    CatchUpPingRatio,
    ManyMissing,
    ManyRate,
    ManyMemory,
}

impl Metric {
    pub(crate) const ALL: [Self; 40] = [
        Self::DownRate,
        Self::UpRate,
        Self::DownCpu,
        Self::UpCpu,
        Self::PingP50,
        Self::PingP99,
        Self::Open1,
        Self::Open8,
        Self::Open64,
        Self::OpenFailures,
        Self::MixedIdlePing,
        Self::MixedPing,
        Self::MixedRate,
        Self::Jain,
        Self::StallRate,
        Self::StallPing,
        Self::Get32Rate,
        Self::Get32P50,
        Self::Get32P99,
        Self::Get1Rate,
        Self::Get1P50,
        Self::Get1P99,
        Self::FirstGet,
        Self::ApiKeyCpu,
        Self::JwtCpu,
        Self::JwtToSameCpu,
        Self::CertificateCpu,
        Self::IdleStreamNear,
        Self::IdleStreamFar,
        Self::IdleAgent,
        Self::ReportRate,
        Self::ReportWire,
        Self::ReportMemory,
        Self::CatchUpRate,
        Self::CatchUpPing,
        Self::CaughtUpPing,
        Self::CatchUpPingRatio,
        Self::ManyMissing,
        Self::ManyRate,
        Self::ManyMemory,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::DownRate => "one download, MB/s",
            Self::UpRate => "one upload, MB/s",
            Self::DownCpu => "CPU of both proxies, download, s/GB",
            Self::UpCpu => "CPU of both proxies, upload, s/GB",
            Self::PingP50 => "64-byte ping p50, us",
            Self::PingP99 => "64-byte ping p99, us",
            Self::Open1 => "opens per second, one at a time",
            Self::Open8 => "opens per second, 8 at once",
            Self::Open64 => "opens per second, 64 at once",
            Self::OpenFailures => "failed opens",
            Self::MixedIdlePing => "paced ping alone, p99, ms",
            Self::MixedPing => "paced ping beside 16 downloads, p99, ms",
            Self::MixedRate => "16 downloads together, MB/s",
            Self::Jain => "Jain index of the 16 downloads",
            Self::StallRate => "downloads beside stalled streams, throughput with / without",
            Self::StallPing => "ping beside stalled streams, p99 with / without",
            Self::Get32Rate => "HTTP: GETs per second, 32 connections",
            Self::Get32P50 => "HTTP: GET p50, 32 connections, us",
            Self::Get32P99 => "HTTP: GET p99, 32 connections, us",
            Self::Get1Rate => "HTTP: GETs per second, 1 connection",
            Self::Get1P50 => "HTTP: GET p50, 1 connection, us",
            Self::Get1P99 => "HTTP: GET p99, 1 connection, us",
            Self::FirstGet => "HTTP: first GET between proxies 25 ms apart, in round trips of 50 ms",
            Self::ApiKeyCpu => "CPU of the hub per request, API key and policy / neither",
            Self::JwtCpu => "CPU of the hub per request, OIDC token and policy / neither",
            Self::JwtToSameCpu => "the same, to a hub that passes the token on unchecked",
            Self::CertificateCpu => "CPU of the hub per request, client certificate and policy / neither",
            Self::IdleStreamNear => "idle stream, client's side, KiB",
            Self::IdleStreamFar => "idle stream, target's side, KiB",
            Self::IdleAgent => "idle agent, hub, KiB",
            Self::ReportRate => "reports: records per second, from POST at the agent to the hub's disk",
            Self::ReportWire => "reports: bytes on the wire / bytes of the records compressed",
            Self::ReportMemory => "reports: greatest memory of an agent with a backlog, MiB",
            Self::CatchUpRate => "reports: records per second when the hub is back",
            Self::CatchUpPing => "reports: paced ping beside an agent that catches up, p99, ms",
            Self::CaughtUpPing => "reports: paced ping on the same tunnel alone, p99, ms",
            Self::CatchUpPingRatio => "reports: paced ping, p99 beside catching up / alone",
            Self::ManyMissing => "many agents report at once: records missing or twice",
            Self::ManyRate => "many agents report at once: records per second",
            Self::ManyMemory => "many agents report at once: hub's memory of each, KiB",
        }
    }

    pub(crate) fn decimals(self) -> usize {
        match self {
            Self::DownRate | Self::UpRate | Self::PingP50 | Self::PingP99 => 0,
            Self::Open1 | Self::Open8 | Self::Open64 | Self::OpenFailures | Self::MixedRate => 0,
            Self::Get32Rate | Self::Get32P50 | Self::Get32P99 | Self::Get1Rate | Self::Get1P50 | Self::Get1P99 => 0,
            Self::MixedIdlePing | Self::MixedPing | Self::IdleAgent => 1,
            Self::DownCpu | Self::UpCpu | Self::StallRate | Self::StallPing => 2,
            Self::FirstGet | Self::IdleStreamNear | Self::IdleStreamFar => 2,
            Self::ApiKeyCpu | Self::JwtCpu | Self::JwtToSameCpu | Self::CertificateCpu => 2,
            Self::ReportRate | Self::CatchUpRate | Self::ManyMissing | Self::ManyRate => 0,
            Self::ReportMemory | Self::ManyMemory => 1,
            Self::ReportWire | Self::CatchUpPing | Self::CaughtUpPing | Self::CatchUpPingRatio => 2,
            Self::Jain => 3,
        }
    }

    fn bar(self, figures: &Figures) -> Option<Bar> {
        match self {
            Self::DownRate | Self::UpRate => Some(Bar::RatioAtLeast(1.0)),
            Self::DownCpu | Self::UpCpu => Some(Bar::RatioAtMost(1.1)),
            Self::PingP50 => Some(Bar::RatioAtMost(1.0)),
            Self::Open1 | Self::Open8 | Self::Open64 => Some(Bar::RatioAtLeast(6.0)),
            Self::OpenFailures => Some(Bar::AtMost(0.0)),
            // Twice the share of one of 16 streams, and never stricter than 10 ms.
            Self::MixedPing => {
                let alone = figures.median(Self::MixedIdlePing, Kind::Tunnel).unwrap_or_default();
                Some(Bar::AtMost((2.0 * 16.0 * alone).max(10.0)))
            }
            Self::Jain | Self::StallRate => Some(Bar::AtLeast(0.95)),
            Self::StallPing => Some(Bar::AtMost(2.0)),
            Self::Get32Rate => Some(Bar::RatioAtLeast(0.7)),
            Self::Get32P50 => Some(Bar::RatioAtMost(1.3)),
            Self::FirstGet => Some(Bar::AtMost(1.5)),
            Self::ApiKeyCpu | Self::JwtCpu | Self::CertificateCpu => Some(Bar::AtMost(1.15)),
            Self::IdleStreamNear | Self::IdleStreamFar => Some(Bar::AtMost(8.0)),
            Self::IdleAgent => Some(Bar::AtMost(40.0)),
            Self::ReportRate => Some(Bar::AtLeast(50_000.0)),
            Self::ReportWire => Some(Bar::AtMost(1.5)),
            Self::ReportMemory => Some(Bar::AtMost(64.0)),
            Self::CatchUpPingRatio => Some(Bar::AtMost(2.0)),
            Self::ManyMissing => Some(Bar::AtMost(0.0)),
            Self::CatchUpRate | Self::CatchUpPing | Self::CaughtUpPing | Self::ManyRate | Self::ManyMemory => None,
            Self::PingP99 | Self::MixedIdlePing | Self::MixedRate => None,
            Self::Get32P99 | Self::Get1Rate | Self::Get1P50 | Self::Get1P99 | Self::JwtToSameCpu => None,
        }
    }
}

/// What mctunnel's figure is held to: its ratio to the chain's, or itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Bar {
    RatioAtLeast(f64),
    RatioAtMost(f64),
    AtLeast(f64),
    AtMost(f64),
}

/// A figure of mctunnel against its bar.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) bar: Bar,
    pub(crate) pass: bool,
}

/// The samples of a run: one of each metric, subject and round.
#[derive(Debug, Default)]
pub(crate) struct Figures(BTreeMap<(Metric, Kind), Vec<f64>>);

impl Figures {
    pub(crate) fn add(&mut self, metric: Metric, kind: Kind, value: f64) {
        self.0.entry((metric, kind)).or_default().push(value);
    }

    pub(crate) fn median(&self, metric: Metric, kind: Kind) -> Option<f64> {
        median(self.samples(metric, kind).to_vec())
    }

    /// The least and the greatest sample.
    pub(crate) fn spread(&self, metric: Metric, kind: Kind) -> Option<(f64, f64)> {
        let samples = self.samples(metric, kind);
        Some((samples.iter().copied().reduce(f64::min)?, samples.iter().copied().reduce(f64::max)?))
    }

    /// mctunnel to the chain: the median of the ratios of each round, so that a drift of the machine cancels out.
    pub(crate) fn ratio(&self, metric: Metric) -> Option<f64> {
        let (ours, theirs) = (self.samples(metric, Kind::Tunnel), self.samples(metric, Kind::Chain));
        median(ours.iter().zip(theirs).filter(|(_, theirs)| **theirs > 0.0).map(|(o, t)| o / t).collect())
    }

    pub(crate) fn verdict(&self, metric: Metric) -> Option<Verdict> {
        let bar = metric.bar(self)?;
        let pass = match bar {
            Bar::RatioAtLeast(least) => self.ratio(metric)? >= least,
            Bar::RatioAtMost(most) => self.ratio(metric)? <= most,
            Bar::AtLeast(least) => self.median(metric, Kind::Tunnel)? >= least,
            Bar::AtMost(most) => self.median(metric, Kind::Tunnel)? <= most,
        };
        Some(Verdict { bar, pass })
    }

    /// How many bars are missed.
    pub(crate) fn missed(&self) -> usize {
        Metric::ALL.into_iter().filter_map(|metric| self.verdict(metric)).filter(|verdict| !verdict.pass).count()
    }

    fn samples(&self, metric: Metric, kind: Kind) -> &[f64] {
        self.0.get(&(metric, kind)).map_or(&[], Vec::as_slice)
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let upper = *values.get(middle)?;
    if values.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*values.get(middle - 1)?, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(metric: Metric, chain: &[f64], tunnel: &[f64]) -> Figures {
        let mut figures = Figures::default();
        chain.iter().for_each(|value| figures.add(metric, Kind::Chain, *value));
        tunnel.iter().for_each(|value| figures.add(metric, Kind::Tunnel, *value));
        figures
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The machine halves its speed in the second round; the ratio stays.
        let figures = figures(Metric::DownRate, &[400.0, 200.0], &[440.0, 220.0]);
        assert!((figures.ratio(Metric::DownRate).unwrap() - 1.1).abs() < 1e-9);
        assert!(figures.verdict(Metric::DownRate).unwrap().pass);
        assert_eq!(figures.missed(), 0);
    }

    #[test]
    fn a_missed_bar_is_seen_and_a_missing_figure_has_no_verdict() {
        let figures = figures(Metric::PingP50, &[100.0], &[101.0]);
        assert!(!figures.verdict(Metric::PingP50).unwrap().pass);
        assert_eq!(figures.missed(), 1);
        assert_eq!(figures.verdict(Metric::Jain), None);
    }

    #[test]
    fn the_fairness_bar_follows_the_idle_ping() {
        let mut figures = figures(Metric::MixedPing, &[], &[12.0]);
        assert!(!figures.verdict(Metric::MixedPing).unwrap().pass);
        figures.add(Metric::MixedIdlePing, Kind::Tunnel, 0.5);
        assert!(figures.verdict(Metric::MixedPing).unwrap().pass);
    }

    #[test]
    fn the_median_of_an_even_number_is_between_the_two_in_the_middle() {
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }
}
