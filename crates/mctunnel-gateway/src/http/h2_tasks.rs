//! The tasks of HTTP/2 connections, and a hold on those that carry an upgraded request.
//!
//! The server gives an upgraded request out as a byte stream that knows only good ends: dropped, it ends well for the client,
//! and a client's reset reads like its end. But it writes that stream in a task of its own, which is spawned here, by the task
//! of the request. Dropping the task before its end is a reset, and a task that is over before its end was reset by the client.

use super::h2_idle::{Activity, Busy};
use hyper::{rt::Executor, upgrade::Upgraded};
use hyper_util::rt::TokioIo;
use std::{
    cell::Cell,
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::{mpsc, oneshot},
};
use tokio_util::sync::CancellationToken;

tokio::task_local! {
    /// What the task of a request leaves for the one that it spawns.
    static LEFT: Cell<Option<Held>>;
    /// Ends the task of a request before its time.
    static CUT: CancellationToken;
}

/// Spawns the tasks of an HTTP/2 connection: one for each request, until its answer is sent. They keep it from being idle.
#[derive(Debug, Clone)]
pub(super) struct Http2Tasks(pub(super) Arc<Activity>);

impl<F> Executor<F> for Http2Tasks
where
    F: Future<Output = ()> + Send + 'static,
{
    #[expect(clippy::disallowed_methods, reason = "the tasks of a connection end with it: their streams break")]
    fn execute(&self, task: F) {
        let busy = self.0.busy();
        match LEFT.try_with(Cell::take).ok().flatten() {
            Some(held) => tokio::spawn(held.run(busy, task)),
            None => {
                let cut = CancellationToken::new();
                tokio::spawn(CUT.scope(cut.clone(), LEFT.scope(Cell::new(None), until(cut, busy, task))))
            }
        };
    }
}

/// Runs a task to its end, or drops it: its stream is reset then.
async fn until(cut: CancellationToken, _busy: Busy, task: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = task => {}
        () = cut.cancelled() => {}
    }
}

/// What resets the stream of the running request, if it is one of HTTP/2.
pub(super) fn cut() -> Option<CancellationToken> {
    CUT.try_with(CancellationToken::clone).ok()
}

/// Takes hold of the upgrade that the running request is about to make.
pub(super) fn hold() -> Hold {
    let (cut, (ask, questions)) = (CancellationToken::new(), mpsc::channel(1));
    // Outside of a request's task there is nobody to hold; the upgrade then looks as if the client had reset it.
    let _ = LEFT.try_with(|left| left.set(Some(Held { cut: cut.clone(), questions })));
    Hold { cut, ask }
}

/// Holds the task that writes an upgraded request.
#[derive(Debug)]
pub(super) struct Hold {
    cut: CancellationToken,
    ask: mpsc::Sender<oneshot::Sender<()>>,
}

/// The task's end of it.
struct Held {
    cut: CancellationToken,
    questions: mpsc::Receiver<oneshot::Sender<()>>,
}

impl Held {
    async fn run(mut self, _busy: Busy, task: impl Future<Output = ()>) {
        let mut task = pin!(task);
        loop {
            tokio::select! {
                biased;
                () = self.cut.cancelled() => return,
                () = &mut task => return,
                // Polled a moment ago, it had not ended.
                Some(answer) = self.questions.recv() => drop(answer.send(())),
            }
        }
    }
}

// === Http2Client ===

/// The client's side of an upgraded request, with ends that can be told apart.
#[derive(Debug)]
pub(super) struct Http2Client {
    io: TokioIo<Upgraded>,
    hold: Hold,
    /// Under way when the client seems to have ended its side.
    question: Option<oneshot::Receiver<()>>,
    /// It has.
    ended: bool,
    /// We have ended ours, and with it the task.
    finished: bool,
}

impl Http2Client {
    pub(super) fn new(client: Upgraded, hold: Hold) -> Self {
        Self { io: TokioIo::new(client), hold, question: None, ended: false, finished: false }
    }

    /// Ends the stream as an error.
    pub(super) fn cut(self) {
        self.hold.cut.cancel();
    }
}

impl AsyncRead for Http2Client {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.question.is_none() && !this.ended {
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.io).poll_read(cx, buf))?;
            if buf.filled().len() > before || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            // An end, or a reset that reads like one: then the task was woken by it too, and does not live to answer.
            let (answer, question) = oneshot::channel();
            let _ = this.hold.ask.try_send(answer);
            this.question = Some(question);
        }
        if let Some(question) = &mut this.question {
            let lives = ready!(Pin::new(question).poll(cx)).is_ok();
            this.question = None;
            this.ended = true;
            if !lives && !this.finished {
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionReset, "the client reset its stream")));
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Http2Client {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().io).poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.finished = true;
        Pin::new(&mut this.io).poll_shutdown(cx)
    }
}
