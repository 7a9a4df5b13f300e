//! Connects to the first of several addresses that answers: in order, the next one joining when one fails or is slow.
//!
//! It knows no names and no rules.

use std::{io, net::SocketAddr, time::Duration};
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{Instant, sleep_until, timeout_at},
};

/// How long an address has the field for itself before the next one joins.
pub(crate) const STAGGER: Duration = Duration::from_millis(250);

/// The try that says most about why nothing answered.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) address: SocketAddr,
    /// `None` when it was still pending at the deadline.
    pub(crate) error: Option<io::Error>,
}

/// Connects to one of the addresses before the deadline.
pub(crate) async fn race<T, F>(
    first: SocketAddr,
    rest: &[SocketAddr],
    deadline: Instant,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, Attempt>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    if !rest.is_empty() {
        return race_many(first, rest, deadline, connect).await;
    }
    // The usual case needs no task.
    match timeout_at(deadline, connect(first)).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(Attempt { address: first, error: Some(error) }),
        Err(_) => Err(Attempt { address: first, error: None }),
    }
}

async fn race_many<T, F>(
    first: SocketAddr,
    rest: &[SocketAddr],
    deadline: Instant,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T, Attempt>
where
    T: Send + 'static,
    F: Future<Output = io::Result<T>> + Send + 'static,
{
    let mut waiting = rest.iter().copied();
    let mut next = Some(first);
    let mut running = JoinSet::new();
    let mut told: Option<Attempt> = None;
    loop {
        if let Some(address) = next.take() {
            let connecting = connect(address);
            running.spawn(async move { (address, connecting.await) });
        }
        let next_joins = if waiting.len() == 0 { deadline } else { deadline.min(Instant::now() + STAGGER) };
        tokio::select! {
            joined = running.join_next() => match joined {
                Some(Ok((_, Ok(stream)))) => return Ok(stream),
                Some(Ok((address, Err(error)))) => told = Some(more_telling(told, address, error)),
                // Connecting does not panic and nobody aborts it here.
                Some(Err(_)) => {}
                None if waiting.len() == 0 => return Err(told.unwrap_or(Attempt { address: first, error: None })),
                None => {}
            },
            () = sleep_until(next_joins) => {
                if Instant::now() >= deadline {
                    return Err(told.filter(is_refused).unwrap_or(Attempt { address: first, error: None }));
                }
            }
        }
        next = waiting.next();
    }
}

/// Connects to one address.
///
/// A socket can connect to itself when the system picks the port being dialled as its own and nothing listens there. That is
/// a target that refuses, not one that echoes.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    if stream.local_addr()? == address {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

/// A refusal comes from the target itself and so says more than a missing route; otherwise the first try stays.
fn more_telling(told: Option<Attempt>, address: SocketAddr, error: io::Error) -> Attempt {
    let attempt = Attempt { address, error: Some(error) };
    match told {
        Some(told) if is_refused(&told) || !is_refused(&attempt) => told,
        Some(_) | None => attempt,
    }
}

fn is_refused(attempt: &Attempt) -> bool {
    attempt.error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
