//! A wire that can be cut.

use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

/// Passes TCP connections on until it is cut; then those are reset and new ones pass again.
pub(crate) struct Wire {
    pub(crate) address: String,
    cut: watch::Sender<u64>,
    _task: JoinSet<()>,
}

impl Wire {
    pub(crate) async fn start(to: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (cut, watch) = watch::channel(0);
        let to = to.to_owned();
        let mut task = JoinSet::new();
        task.spawn(async move {
            let mut passing = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let (to, mut watch) = (to.clone(), watch.clone());
                watch.mark_unchanged();
                passing.spawn(async move {
                    let Ok(far) = TcpStream::connect(to).await else { return };
                    pass(near, far, watch).await;
                });
            }
        });
        Self { address, cut, _task: task }
    }

    pub(crate) fn cut(&self) {
        self.cut.send_modify(|n| *n += 1);
    }
}

async fn pass(mut near: TcpStream, mut far: TcpStream, mut cut: watch::Receiver<u64>) {
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
        _ = cut.changed() => {}
    }
    let _ = near.set_zero_linger();
    let _ = far.set_zero_linger();
}
