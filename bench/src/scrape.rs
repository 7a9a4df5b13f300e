//! What a process says of itself on its admin listener.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
};

use anyhow::{Context as _, Result};

/// The sum of a metric over all its labels that have this text.
pub(crate) fn sum(admin: &str, metric: &str, label: &str) -> Result<f64> {
    let mut socket = TcpStream::connect(admin).with_context(|| format!("connect to {admin}"))?;
    write!(socket, "GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n")?;
    let mut page = String::new();
    socket.read_to_string(&mut page)?;
    Ok(sum_of(&page, metric, label))
}

fn sum_of(page: &str, metric: &str, label: &str) -> f64 {
    let value = |line: &str| {
        let (labels, value) = line.strip_prefix(metric)?.strip_prefix('{')?.split_once("} ")?;
        labels.contains(label).then(|| value.trim().parse::<f64>().ok())?
    };
    page.lines().filter_map(value).sum()
}

#[cfg(test)]
mod tests {
    use super::sum_of;

    #[test]
    fn only_the_lines_of_the_metric_and_the_label_count() {
        let page = "# TYPE a counter\na{cluster=\"x\",kind=\"k\"} 3\na{cluster=\"y\",kind=\"k\"} 4\n\
                    a{cluster=\"y\",kind=\"other\"} 50\nab{kind=\"k\"} 600\n";
        assert!((sum_of(page, "a", "kind=\"k\"") - 7.0).abs() < 1e-9);
    }
}
