//! Looking names up with the operating system, a bounded number at a time.
//!
//! The system's call blocks a thread until its name server has answered or given up, which no cancellation shortens. Whoever can
//! choose names could otherwise take every thread that file access and the rest of the process need.

use std::{
    io,
    net::{IpAddr, ToSocketAddrs},
    sync::{Arc, LazyLock},
};
use tokio::{sync::Semaphore, task::spawn_blocking};

/// Names that are looked up at the same time in this process. Further ones wait for their turn, within their own time limit.
pub const AT_ONCE: usize = 64;

/// Asks the operating system, with its search domains and its host file. Cancel safe: what was begun holds its turn until it ends.
pub async fn look_up(name: &str) -> io::Result<Vec<IpAddr>> {
    static SYSTEM: LazyLock<LookUps> = LazyLock::new(|| LookUps::new(AT_ONCE));
    SYSTEM.ask(name, ask_the_system).await
}

fn ask_the_system(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

struct LookUps {
    turns: Arc<Semaphore>,
}

impl LookUps {
    fn new(at_once: usize) -> Self {
        Self { turns: Arc::new(Semaphore::new(at_once)) }
    }

    async fn ask(
        &self,
        name: &str,
        ask: impl FnOnce(&str) -> io::Result<Vec<IpAddr>> + Send + 'static,
    ) -> io::Result<Vec<IpAddr>> {
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(io::Error::other)?;
        let name = name.to_owned();
        // The turn goes with the thread, not with whoever waits for it.
        let asked = spawn_blocking(move || {
            let answer = ask(&name);
            drop(turn);
            answer
        });
        asked.await.map_err(io::Error::other)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{sync::mpsc, time::Duration};
    use tokio::{task::JoinSet, time::timeout};

    #[tokio::test]
    async fn t20_names_that_hang_take_no_more_threads_than_their_share() {
        let look_ups = Arc::new(LookUps::new(3));
        let (begun, begins) = mpsc::channel();
        let (answer, answers) = mpsc::channel::<()>();
        let answers = Arc::new(parking_lot::Mutex::new(answers));
        let mut asking = JoinSet::new();
        for _ in 0..50 {
            let (look_ups, begun, answers) = (Arc::clone(&look_ups), begun.clone(), Arc::clone(&answers));
            asking.spawn(async move {
                let hang = move |_: &str| {
                    begun.send(()).unwrap();
                    let _ = answers.lock().recv();
                    Ok(Vec::new())
                };
                // Whoever asked has long gone when the name server gives up.
                let _ = timeout(Duration::from_millis(20), look_ups.ask("slow.example", hang)).await;
            });
        }
        asking.join_all().await;
        for _ in 0..3 {
            begins.recv_timeout(Duration::from_secs(10)).unwrap();
        }
        assert_eq!(begins.try_iter().count(), 0, "each holds its thread; nobody else begins");

        // Once they end, others get their turn.
        drop(answer);
        let found = timeout(Duration::from_secs(10), look_ups.ask("quick", |_| Ok(vec![[10, 0, 0, 1].into()]))).await;
        assert_eq!(found.unwrap().unwrap(), [IpAddr::from([10, 0, 0, 1])]);
    }

    #[tokio::test]
    async fn the_system_knows_this_host() {
        let found = look_up("localhost").await.unwrap();
        assert!(found.iter().any(IpAddr::is_loopback), "{found:?}");
    }
}
