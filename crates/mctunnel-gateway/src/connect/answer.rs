//! What clients are told: the one line that begins a tunnel, and the answers that refuse one, with the reason in the status line.

use super::Refusal;
use mctunnel_core::OpenError;
use std::{fmt::Write, io, time::Duration};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// Begins the tunnel; the next byte is the target's.
pub(super) async fn establish(socket: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
    socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
    socket.flush().await
}

/// The answer to a request the opener refused.
pub(super) fn for_open_error(error: &OpenError) -> String {
    let code = error.code();
    let headers = match error.retry_after() {
        Some(wait) => format!("Retry-After: {}\r\n", whole_seconds(wait)),
        None => String::new(),
    };
    render(error.http_status(), code.code, &error.to_string(), code.remedy, &headers)
}

/// The answer to a request the gateway itself refused.
pub(super) fn for_refusal(refusal: &Refusal) -> String {
    let code = refusal.code();
    let retry_after = |wait| format!("Retry-After: {}\r\n", whole_seconds(wait));
    let headers = match (refusal, refusal.http_status()) {
        (_, 405) => "Allow: CONNECT\r\n".to_owned(),
        (_, 407) => "Proxy-Authenticate: Basic realm=\"mctunnel\"\r\nProxy-Authenticate: Bearer realm=\"mctunnel\"\r\n"
            .to_owned(),
        (Refusal::Limited { retry_after: wait, .. }, _) => retry_after((*wait).max(SOON)),
        (_, 429 | 503) => retry_after(SOON),
        _ => String::new(),
    };
    render(refusal.http_status(), code.code, &refusal.to_string(), code.remedy, &headers)
}

fn render(status: u16, code: &str, message: &str, remedy: &str, headers: &str) -> String {
    let reason = printable(&format!("{code}: {message}"), LONGEST_REASON);
    let body = format!("{code}\n{}\n{remedy}\n", printable(message, LONGEST_MESSAGE));
    let mut answer = String::with_capacity(256 + reason.len() + body.len());
    // Writing to a string cannot fail.
    let _ = write!(
        answer,
        "HTTP/1.1 {status} {reason}\r\n{headers}Content-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len(),
    );
    answer
}

/// When to try again if nobody knows better.
const SOON: Duration = Duration::from_secs(1);

const LONGEST_REASON: usize = 200;
const LONGEST_MESSAGE: usize = 1000;

/// One line of printable ASCII: a message may come from the other end of a tunnel.
fn printable(text: &str, longest: usize) -> String {
    text.chars().take(longest).map(|c| if (' '..='~').contains(&c) { c } else { '?' }).collect()
}

/// Rounded up: a client that waits that long has waited long enough.
fn whole_seconds(wait: Duration) -> u64 {
    wait.as_secs() + u64::from(wait.subsec_nanos() > 0)
}

/// Sends the answer and ends the connection so that the answer arrives.
///
/// Closing a socket with unread input makes the system reset it, and a reset can overtake the answer. So our side is ended
/// first, and a little of what the client still sends is read and forgotten.
pub(super) async fn refuse(socket: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &str) {
    // A client that does not take the answer has no use for it either.
    let _ = timeout(LINGER, send_and_linger(socket, answer)).await;
}

async fn send_and_linger(socket: &mut (impl AsyncRead + AsyncWrite + Unpin), answer: &str) -> io::Result<()> {
    socket.write_all(answer.as_bytes()).await?;
    socket.shutdown().await?;
    let mut left = MOST_FORGOTTEN;
    let mut forgotten = [0; 512];
    while left > 0 {
        match socket.read(&mut forgotten).await? {
            0 => break,
            read => left = left.saturating_sub(read),
        }
    }
    Ok(())
}

const LINGER: Duration = Duration::from_secs(1);
const MOST_FORGOTTEN: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_cannot_break_out_of_the_status_line() {
        let error = OpenError::TargetRefused(format!("a\r\nSet-Cookie: x\u{1b}[31m\u{2028}é{}", "y".repeat(5000)));
        let answer = for_open_error(&error);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
        let status = head.lines().next().expect("a status line");
        assert!(status.starts_with("HTTP/1.1 502 MCT-OPEN-TARGET-REFUSED: a??Set-Cookie: x?[31m??yyy"), "{status}");
        assert_eq!(status.len(), "HTTP/1.1 502 ".len() + LONGEST_REASON);
        assert!(!head.contains("\nSet-Cookie") && body.len() < 1200 && answer.is_ascii());
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
    }

    #[test]
    fn waits_are_rounded_up() {
        for (millis, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2)] {
            assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds);
        }
    }
}
