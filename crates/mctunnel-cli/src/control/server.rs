//! The hub's side of the control socket.

use super::{
    Command, ControlError, Failure, Handler, Reply,
    protocol::{Request, VERSION},
    socket::SocketPath,
    socket_file::SocketFile,
};
use crate::{few::serve_few, process};
use mctunnel::ErrorCode;
use mctunnel_core::Store;
use mctunnel_store::directory;
use std::{fs, io, os::unix::fs::PermissionsExt, path::Path, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};
use tokio_util::task::AbortOnDropHandle;

/// Commands at once. People type them.
const MOST_CONNECTIONS: usize = 16;
/// The longest request.
const MOST_BYTES: u64 = 64 << 10;
/// How long a client may take to say what it wants, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A hub that listens for commands. Dropping it ends that and removes the socket.
#[derive(Debug)]
pub(crate) struct Control {
    /// Goes first: as long as the store is open here, nobody else listens there.
    file: SocketFile,
    serving: AbortOnDropHandle<()>,
}

impl Control {
    /// Ends it; then nothing here has the store, but for a command that is under way.
    pub(crate) async fn end(self) {
        let Self { file, serving } = self;
        drop(file);
        serving.abort();
        let _ = serving.await;
    }
}

/// Listens for commands on the control socket of a data directory and carries them out on its store, until the answer is dropped.
///
/// A socket that a hub before left behind is replaced; one that is listened on is not.
pub(crate) fn serve(data_dir: &Path, store: Arc<dyn Store>) -> Result<Control, ControlError> {
    directory::prepare(data_dir)?;
    let path = SocketPath::of(data_dir)?;
    remove_stale(&path)?;
    let handler = Arc::new(Handler::new(store)?);
    let listener = UnixListener::bind(path.usable()).map_err(path.error("listen on"))?;
    // Until here the directory alone keeps others out, as it does afterwards.
    fs::set_permissions(path.usable(), fs::Permissions::from_mode(0o600)).map_err(path.error("restrict"))?;
    let file = SocketFile::of(path.shown()).map_err(path.error("find"))?;
    Ok(Control { file, serving: process::owned(accept(listener, handler)) })
}

fn remove_stale(path: &SocketPath) -> Result<(), ControlError> {
    if std::os::unix::net::UnixStream::connect(path.usable()).is_ok() {
        return Err(ControlError::InUse { path: path.shown().to_owned() });
    }
    match fs::remove_file(path.usable()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(path.error("replace")(error)),
        _ => Ok(()),
    }
}

async fn accept(listener: UnixListener, handler: Arc<Handler>) {
    let serve = |stream| {
        let handler = Arc::clone(&handler);
        async move {
            let served = tokio::time::timeout(PATIENCE, serve_one(stream, handler)).await;
            if !matches!(served, Ok(Ok(()))) {
                tracing::debug!(?served, "A connection to the control socket broke.");
            }
        }
    };
    serve_few(&listener, MOST_CONNECTIONS, "the control socket", serve).await;
}

async fn serve_one(stream: UnixStream, handler: Arc<Handler>) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if !is_trusted(peer, rustix::process::geteuid().as_raw()) {
        tracing::warn!(uid = peer, "Another user reached the control socket and was turned away.");
        return Ok(());
    }
    let (reader, mut writer) = stream.into_split();
    let mut line = String::new();
    BufReader::new(reader.take(MOST_BYTES)).read_line(&mut line).await?;
    let reply = answer(&line, handler).await;
    let mut text = serde_json::to_string(&reply)?;
    text.push('\n');
    writer.write_all(text.as_bytes()).await?;
    writer.shutdown().await
}

/// The hub's own user, and root, who could read its files as well.
pub(super) fn is_trusted(peer: u32, own: u32) -> bool {
    peer == own || peer == 0
}

async fn answer(line: &str, handler: Arc<Handler>) -> Reply {
    let command = match parse(line) {
        Ok(command) => command,
        Err(failure) => return Reply::Failed(failure),
    };
    // It waits for the disk.
    let handled = tokio::task::spawn_blocking(move || handler.handle(command)).await;
    handled.unwrap_or_else(|error| {
        let code = ErrorCode { code: "MCT-CONTROL-BROKEN", remedy: "report this with the hub's log" };
        Reply::Failed(Failure::new(code, error))
    })
}

/// Reads a request; the version first, so that another version is told so whatever it asks for.
pub(super) fn parse(line: &str) -> Result<Command, Failure> {
    const UNKNOWN: ErrorCode = ErrorCode {
        code: "MCT-CONTROL-UNKNOWN",
        remedy: "use the same version of mctunnel for the hub and the command",
    };
    let unknown = |error: anyhow::Error| Failure::new(UNKNOWN, error);
    if !line.ends_with('\n') {
        return Err(unknown(anyhow::anyhow!("the request is too long or has no end")));
    }
    let request: Request<serde_json::Value> = serde_json::from_str(line).map_err(|error| unknown(error.into()))?;
    if request.version != VERSION {
        return Err(unknown(anyhow::anyhow!("the hub speaks version {VERSION} and not {}", request.version)));
    }
    serde_json::from_value(request.command).map_err(|error| unknown(error.into()))
}
