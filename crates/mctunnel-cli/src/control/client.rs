//! The command's side: speaks to the hub that runs, or does the hub's work when none does.

use super::{
    Command, ControlError, Handler, Reply,
    protocol::{Request, VERSION},
    socket::SocketPath,
};
use mctunnel_store::{FileStore, OpenStoreError};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _};

/// How long a hub may take to answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// How often to look for a hub that has the store and does not listen yet, or no more: for five seconds.
const LOOKS: u32 = 100;
/// Until the next look.
const PAUSE: Duration = Duration::from_millis(50);
/// The longest answer: many keys.
const MOST_BYTES: u64 = 64 << 20;

/// Has a command carried out: by the hub of the data directory if one runs, else here.
pub(crate) fn call(data_dir: &Path, command: &Command) -> Result<Reply, ControlError> {
    call_between(data_dir, command, &mut || thread::sleep(PAUSE))
}

/// As [`call`], with what to do between two looks for a hub.
pub(super) fn call_between(
    data_dir: &Path,
    command: &Command,
    between: &mut dyn FnMut(),
) -> Result<Reply, ControlError> {
    let exists = data_dir.is_dir();
    if !exists && !matches!(command, Command::ApiKeyCreate { .. }) {
        return Err(ControlError::NoDataDirectory { data_dir: data_dir.to_owned() });
    }
    let mut looks = 0;
    loop {
        if exists && let Some(hub) = connect(data_dir)? {
            return ask(data_dir, hub, command);
        }
        if *command == Command::Ping {
            return Err(ControlError::NoHub { data_dir: data_dir.to_owned() });
        }
        looks += 1;
        match FileStore::open(data_dir) {
            Ok(store) => return accepted(Handler::new(Arc::new(store))?.handle(command.clone())),
            Err(OpenStoreError::InUse { .. }) if looks < LOOKS => between(),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The hub, if one listens.
fn connect(data_dir: &Path) -> Result<Option<UnixStream>, ControlError> {
    let path = SocketPath::of(data_dir)?;
    match UnixStream::connect(path.usable()) {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if is_nobody(&error) => Ok(None),
        Err(error) => Err(path.error("reach")(error)),
    }
}

/// Has the hub of the data directory carry a command out, and nobody else; for a hub that must not be held up.
pub(crate) async fn ask_hub(data_dir: &Path, command: &Command, within: Duration) -> Result<Reply, ControlError> {
    let path = SocketPath::of(data_dir)?;
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let asked = tokio::time::timeout(within, exchange_on(&path, command)).await.map_err(late);
    match asked.and_then(|asked| asked) {
        Ok(line) => read(&line),
        Err(error) if is_nobody(&error) => Err(ControlError::NoHub { data_dir: data_dir.to_owned() }),
        Err(error) => Err(path.error("speak to the hub on")(error)),
    }
}

async fn exchange_on(path: &SocketPath, command: &Command) -> io::Result<String> {
    let (reader, mut writer) = tokio::net::UnixStream::connect(path.usable()).await?.into_split();
    writer.write_all(request(command)?.as_bytes()).await?;
    let mut line = String::new();
    tokio::io::BufReader::new(tokio::io::AsyncReadExt::take(reader, MOST_BYTES)).read_line(&mut line).await?;
    // It ended meanwhile.
    if line.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(line) }
}

fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
}

fn ask(data_dir: &Path, hub: UnixStream, command: &Command) -> Result<Reply, ControlError> {
    let path = SocketPath::of(data_dir)?;
    read(&exchange(hub, command).map_err(path.error("speak to the hub on"))?)
}

fn read(line: &str) -> Result<Reply, ControlError> {
    if line.is_empty() {
        return Err(ControlError::BadAnswer("it closed the connection".to_owned()));
    }
    let reply = serde_json::from_str(line).map_err(|error| ControlError::BadAnswer(error.to_string()))?;
    accepted(reply)
}

fn exchange(mut hub: UnixStream, command: &Command) -> io::Result<String> {
    hub.set_read_timeout(Some(PATIENCE))?;
    hub.set_write_timeout(Some(PATIENCE))?;
    hub.write_all(request(command)?.as_bytes())?;
    let mut line = String::new();
    BufReader::new(hub.take(MOST_BYTES)).read_line(&mut line)?;
    Ok(line)
}

fn request(command: &Command) -> io::Result<String> {
    let mut request = serde_json::to_string(&Request { version: VERSION, command })?;
    request.push('\n');
    Ok(request)
}

fn accepted(reply: Reply) -> Result<Reply, ControlError> {
    match reply {
        Reply::Failed(failure) => Err(ControlError::Refused(failure)),
        reply @ (Reply::Pong { .. }
        | Reply::ApiKeyCreated { .. }
        | Reply::ApiKeys { .. }
        | Reply::ApiKeyRevoked { .. }
        | Reply::ApiKeyRecords { .. }) => Ok(reply),
    }
}
