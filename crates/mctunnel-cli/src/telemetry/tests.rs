//! Each happening, and the counts it leaves.

use super::*;

fn cluster() -> ClusterName {
    ClusterName::parse("cluster-a").expect("a name")
}

fn happenings() -> Vec<Happening> {
    let text = |text: &str| text.to_owned();
    let second = Duration::from_secs(1);
    let replaced = |duel| Happening::TunnelReplaced { cluster: cluster(), old_generation: 1, new_generation: 2, duel };
    let opened = || Happening::StreamOpened { cluster: cluster(), target: text("db:1"), took: second };
    let refused =
        |cluster| Happening::StreamRefused { cluster, target: text("db:1"), code: "MCT-A", reason: text("no") };
    vec![
        Happening::TunnelUp { cluster: cluster(), generation: 1, instance: text("i"), peer: text("p") },
        Happening::TunnelDown { cluster: cluster(), generation: 1, lasted: second, reason: text("gone") },
        replaced(true),
        replaced(false),
        Happening::PeerRefused { peer: text("p"), code: "MCT-B", reason: text("no") },
        Happening::Reconnecting { reason: text("no"), retry_in: second },
        opened(),
        opened(),
        refused(Some(cluster())),
        refused(None),
        Happening::StreamEnded { cluster: cluster(), bytes_up: 3, bytes_down: 5, lasted: second, error: None },
        Happening::Draining { streams: 1, grace: second },
        Happening::Drained { cut: 1 },
    ]
}

#[test]
fn every_happening_is_counted() {
    let telemetry = Telemetry::new();
    for happening in happenings() {
        telemetry.observe(&happening);
    }
    let page = telemetry.handle().render();
    for line in [
        "mctunnel_tunnel_up_total{cluster=\"cluster-a\"} 1",
        "mctunnel_tunnel_down_total{cluster=\"cluster-a\"} 1",
        "mctunnel_tunnel_replaced_total{cluster=\"cluster-a\",duel=\"true\"} 1",
        "mctunnel_tunnel_replaced_total{cluster=\"cluster-a\",duel=\"false\"} 1",
        "mctunnel_peers_refused_total{code=\"MCT-B\"} 1",
        "mctunnel_reconnects_total 1",
        "mctunnel_streams_opened_total{cluster=\"cluster-a\"} 2",
        "mctunnel_streams_refused_total{cluster=\"cluster-a\",code=\"MCT-A\"} 1",
        "mctunnel_streams_refused_total{cluster=\"\",code=\"MCT-A\"} 1",
        "mctunnel_streams_open{cluster=\"cluster-a\"} 1",
        "mctunnel_stream_bytes_total{cluster=\"cluster-a\",direction=\"up\"} 3",
        "mctunnel_stream_bytes_total{cluster=\"cluster-a\",direction=\"down\"} 5",
        "mctunnel_open_seconds_bucket{le=\"0.5\"} 0",
        "mctunnel_open_seconds_bucket{le=\"1\"} 2",
        "mctunnel_draining 1",
    ] {
        assert!(page.lines().any(|l| l == line), "{line}\n{page}");
    }
}

#[test]
fn every_metric_has_a_line_of_help_and_is_documented() {
    let telemetry = Telemetry::new();
    for happening in happenings() {
        telemetry.observe(&happening);
    }
    let page = telemetry.handle().render();
    let document = include_str!("../../../../docs/operations.md");
    let kinds: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next()).collect();
    assert!(kinds.len() >= 12, "{kinds:?}");
    for name in kinds {
        assert!(page.contains(&format!("# HELP {name} ")), "{name} has no help");
        assert!(document.contains(&format!("`{name}`")), "{name} is not in docs/operations.md");
    }
}

#[tokio::test]
async fn the_first_tunnel_is_told() {
    let telemetry = Telemetry::new();
    let told = telemetry.tunnel_was_up();
    tokio::pin!(told);
    let early = tokio::time::timeout(Duration::ZERO, &mut told).await;
    assert!(early.is_err(), "no tunnel was up yet");
    for happening in happenings() {
        telemetry.observe(&happening);
    }
    told.await;
    telemetry.tunnel_was_up().await;
}
