//! Commands with and without a hub, and who may give them.

use super::{
    Command, Control, ControlError, Reply, call,
    client::call_between,
    protocol::Request,
    serve,
    server::{is_trusted, parse},
    socket::SocketPath,
};
use crate::stored_api_keys::StoredApiKeys;
use mctunnel_authn::ApiKeyStore as _;
use mctunnel_core::Store;
use mctunnel_store::FileStore;
use std::{
    fs,
    io::{Read as _, Write as _},
    os::unix::{fs::PermissionsExt, net::UnixListener, net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn data_dir(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn socket(&self) -> PathBuf {
        self.data_dir().join("control.sock")
    }

    /// As a hub does: the store first, then the socket.
    fn hub(&self) -> (Arc<dyn Store>, Control) {
        let store: Arc<dyn Store> = Arc::new(FileStore::open(&self.data_dir()).unwrap());
        let control = serve(&self.data_dir(), Arc::clone(&store)).unwrap();
        (store, control)
    }
}

fn create(user: &str) -> Command {
    Command::ApiKeyCreate {
        name: "test".to_owned(),
        user: user.to_owned(),
        groups: vec!["g".to_owned()],
        lifetime: Some(60),
    }
}

/// Has a command carried out, off the runtime's threads.
async fn ask(data_dir: &Path, command: Command) -> Result<Reply, ControlError> {
    let data_dir = data_dir.to_owned();
    tokio::task::spawn_blocking(move || call(&data_dir, &command)).await.unwrap()
}

fn refusal(result: Result<Reply, ControlError>) -> String {
    match result {
        Err(ControlError::Refused(failure)) => failure.code,
        other => panic!("{other:?}"),
    }
}

/// Makes, lists and revokes; gives the key and its id.
async fn whole_life_of_a_key(data_dir: &Path) -> (String, String) {
    let Reply::ApiKeyCreated { key, record } = ask(data_dir, create("ci")).await.unwrap() else { panic!() };
    assert!(key.expose().starts_with("mctk_") && key.expose().contains(&record.id));
    assert_eq!((record.user.as_str(), record.name.as_str(), record.groups.len()), ("ci", "test", 1));
    assert_eq!(record.expires, Some(record.created + 60));
    let Reply::ApiKeys { keys } = ask(data_dir, Command::ApiKeyList).await.unwrap() else { panic!() };
    assert_eq!(keys, std::slice::from_ref(&record));
    let revoke = Command::ApiKeyRevoke { id: record.id.clone() };
    let Reply::ApiKeyRevoked { record: revoked } = ask(data_dir, revoke).await.unwrap() else { panic!() };
    assert!(revoked.revoked.is_some());
    let unknown = ask(data_dir, Command::ApiKeyRevoke { id: "nobody".to_owned() }).await;
    assert_eq!(refusal(unknown), "MCT-AUTHN-KEY-UNKNOWN");
    (key.expose().to_owned(), record.id)
}

#[tokio::test]
async fn every_command_works_without_a_hub() {
    let place = Place::new();
    let (_, id) = whole_life_of_a_key(&place.data_dir()).await;
    let store = Arc::new(FileStore::open(&place.data_dir()).unwrap());
    assert!(StoredApiKeys::open(store).unwrap().find(&id).unwrap().revoked.is_some(), "it is in the store");
    assert!(matches!(ask(&place.data_dir(), Command::Ping).await, Err(ControlError::NoHub { .. })));
}

#[tokio::test]
async fn every_command_works_with_a_hub_which_sees_it_at_once() {
    let place = Place::new();
    let (store, _control) = place.hub();
    let Reply::Pong { pid, .. } = ask(&place.data_dir(), Command::Ping).await.unwrap() else { panic!() };
    assert_eq!(pid, std::process::id());
    let used_by_the_gateway = StoredApiKeys::open(Arc::clone(&store)).unwrap();
    let before = used_by_the_gateway.generation();
    let (_, id) = whole_life_of_a_key(&place.data_dir()).await;
    assert!(used_by_the_gateway.find(&id).unwrap().revoked.is_some());
    assert_ne!(used_by_the_gateway.generation(), before);
}

#[tokio::test]
async fn t30_the_key_itself_is_kept_nowhere() {
    let place = Place::new();
    let (key, _) = whole_life_of_a_key(&place.data_dir()).await;
    let secret = key.split('_').nth(2).unwrap();
    for entry in fs::read_dir(place.data_dir()).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|window| window == secret.as_bytes()));
    }
    let reply = ask(&place.data_dir(), create("ci")).await.unwrap();
    let Reply::ApiKeyCreated { key, .. } = &reply else { panic!() };
    assert!(!format!("{reply:?}").contains(key.expose()), "nor does it print");
}

#[tokio::test]
async fn the_socket_is_for_its_owner_alone_and_goes_with_the_hub() {
    let place = Place::new();
    let (_store, control) = place.hub();
    assert_eq!(fs::metadata(place.socket()).unwrap().permissions().mode() & 0o7777, 0o600);
    drop(control);
    assert!(!place.socket().exists());
}

#[tokio::test]
async fn a_directory_that_others_can_enter_is_refused() {
    for mode in [0o755, 0o710, 0o701] {
        let place = Place::new();
        let store: Arc<dyn Store> = Arc::new(FileStore::open(&place.data_dir()).unwrap());
        fs::set_permissions(place.data_dir(), fs::Permissions::from_mode(mode)).unwrap();
        let refused = serve(&place.data_dir(), store).unwrap_err();
        assert_eq!(refused.code().code, "MCT-STORE-EXPOSED", "{mode:o}");
        assert!(!place.socket().exists());
    }
}

#[test]
fn only_the_hubs_user_and_root_are_heard() {
    assert!(is_trusted(1000, 1000) && is_trusted(0, 1000) && is_trusted(0, 0));
    assert!(!is_trusted(1000, 0) && !is_trusted(1001, 1000));
}

#[tokio::test]
async fn a_socket_left_behind_is_replaced_and_a_live_one_is_not() {
    let place = Place::new();
    drop(FileStore::open(&place.data_dir()).unwrap());
    drop(UnixListener::bind(place.socket()).unwrap());
    assert!(place.socket().exists(), "as after kill -9");
    let (store, control) = place.hub();
    assert!(ask(&place.data_dir(), Command::Ping).await.is_ok());
    let second = serve(&place.data_dir(), store).unwrap_err();
    assert_eq!(second.code().code, "MCT-CONTROL-IN-USE");
    assert!(ask(&place.data_dir(), Command::Ping).await.is_ok(), "the first is unharmed");
    drop(control);
}

#[tokio::test]
async fn a_socket_that_is_somebody_elses_by_now_is_left_alone() {
    let place = Place::new();
    let (_store, control) = place.hub();
    fs::remove_file(place.socket()).unwrap();
    let _other = UnixListener::bind(place.socket()).unwrap();
    drop(control);
    assert!(place.socket().exists());
}

#[tokio::test]
async fn a_path_longer_than_a_sockets_address_works() {
    let place = Place::new();
    let data_dir = place.data_dir().join("x".repeat(120));
    let store: Arc<dyn Store> = Arc::new(FileStore::open(&data_dir).unwrap());
    let control = serve(&data_dir, store).unwrap();
    assert!(ask(&data_dir, Command::Ping).await.is_ok());
    drop(control);
    assert!(!data_dir.join("control.sock").exists());
}

#[test]
fn a_store_in_use_without_a_socket_is_an_error_and_not_a_second_writer() {
    let place = Place::new();
    let _store = FileStore::open(&place.data_dir()).unwrap();
    let mut pauses = 0;
    let refused = call_between(&place.data_dir(), &Command::ApiKeyList, &mut || pauses += 1).unwrap_err();
    assert_eq!(refused.code().code, "MCT-STORE-IN-USE");
    assert_eq!(pauses, 99, "after it was looked for again and again");
}

#[tokio::test]
async fn a_hub_that_is_just_starting_is_waited_for() {
    let place = Place::new();
    let store: Arc<dyn Store> = Arc::new(FileStore::open(&place.data_dir()).unwrap());
    let (found_nobody, nobody_was_found) = tokio::sync::oneshot::channel();
    let (started, has_started) = std::sync::mpsc::channel();
    let data_dir = place.data_dir();
    let asking = tokio::task::spawn_blocking(move || {
        let mut found_nobody = Some(found_nobody);
        call_between(&data_dir, &Command::ApiKeyList, &mut || {
            found_nobody.take().unwrap().send(()).unwrap();
            has_started.recv().unwrap();
        })
    });
    nobody_was_found.await.unwrap();
    let _control = serve(&place.data_dir(), store).unwrap();
    started.send(()).unwrap();
    assert!(asking.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_directory_that_is_not_there_is_made_only_for_what_has_to_be_kept() {
    let place = Place::new();
    for command in [Command::ApiKeyList, Command::ApiKeyRevoke { id: "x".to_owned() }, Command::Ping] {
        let refused = ask(&place.data_dir(), command).await.unwrap_err();
        assert_eq!(refused.code().code, "MCT-CONTROL-NO-DATA-DIR");
    }
    assert!(!place.data_dir().exists());
    ask(&place.data_dir(), create("ci")).await.unwrap();
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_with_a_code() {
    let place = Place::new();
    let (_store, _control) = place.hub();
    for (name, user, code) in [
        ("", "ci", "MCT-CONTROL-BAD-KEY-NAME"),
        ("a\nb", "ci", "MCT-CONTROL-BAD-KEY-NAME"),
        (&*"x".repeat(101), "ci", "MCT-CONTROL-BAD-KEY-NAME"),
        ("n", "", "MCT-AUTHN-KEY-REFUSED"),
    ] {
        let command =
            Command::ApiKeyCreate { name: name.to_owned(), user: user.to_owned(), groups: Vec::new(), lifetime: None };
        assert_eq!(refusal(ask(&place.data_dir(), command).await), code);
    }
}

/// What the hub answers to bytes.
async fn raw(place: &Place, request: Vec<u8>) -> String {
    let path = SocketPath::of(&place.data_dir()).unwrap();
    tokio::task::spawn_blocking(move || {
        let mut hub = UnixStream::connect(path.usable()).unwrap();
        // It may stop reading what is too long.
        let _ = hub.write_all(&request);
        let _ = hub.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = hub.read_to_string(&mut answer);
        answer
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn other_versions_and_garbage_are_told_so_and_harm_nobody() {
    let place = Place::new();
    let (_store, _control) = place.hub();
    let request =
        |version: u32, command: &str| format!("{{\"version\":{version},\"command\":{command}}}\n").into_bytes();
    for bytes in [
        request(2, r#"{"kind":"ping"}"#),
        request(1, r#"{"kind":"from-the-future"}"#),
        request(1, r#"{"kind":"api-key-revoke","id":"x","more":1}"#),
        b"\n".to_vec(),
        b"{}\n".to_vec(),
        b"no end".to_vec(),
        Vec::new(),
    ] {
        let answer = raw(&place, bytes.clone()).await;
        assert!(answer.contains("MCT-CONTROL-UNKNOWN") && answer.ends_with('\n'), "{bytes:?}: {answer}");
    }
    raw(&place, vec![b'x'; 1 << 20]).await;
    raw(&place, b"\xff\xfe\n".to_vec()).await;
    assert!(ask(&place.data_dir(), Command::Ping).await.is_ok());
}

#[test]
fn the_words_on_the_wire_are_these() {
    let line = serde_json::to_string(&Request { version: 1, command: create("ci") }).unwrap();
    assert_eq!(
        line,
        r#"{"version":1,"command":{"kind":"api-key-create","name":"test","user":"ci","groups":["g"],"lifetime":60}}"#
    );
    assert_eq!(parse(&format!("{line}\n")).unwrap(), create("ci"));
}
