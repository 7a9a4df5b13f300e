//! How a page ends: cleanly behind its last piece, and in no other way.

use super::*;
use crate::{Admitted, Checkpoint};
use mctunnel_core::{Action, ClusterName, Destination, Identity, Protocol, Target};
use std::future::poll_fn;

/// A page behind a checkpoint that allows everything.
fn body<F>(write: impl FnOnce(PageWriter) -> F) -> PageBody
where
    F: Future<Output = Result<(), PageEnded>> + Send + 'static,
{
    let checkpoint = Checkpoint::default();
    let recording = checkpoint.record("http", "1").unwrap();
    let admitted = Admitted {
        identity: Identity::Anonymous,
        as_of: 0,
        destination: Destination { cluster: ClusterName::parse("c1").unwrap(), target: Target::KubeApi },
        action: Action::Bytes,
        protocol: Protocol::http(),
        source: None,
    };
    let permit = checkpoint.admit_some(admitted, &recording).unwrap();
    let Content::Pieces(pieces) = Page::written("text/plain", permit, write).content else { panic!("it is written") };
    PageBody::new(pieces, recording)
}

/// What a client reads, and whether it learns that it is whole.
async fn read(mut body: PageBody) -> (String, bool) {
    let mut text = String::new();
    loop {
        match poll_fn(|cx| body.poll_frame(cx)).await {
            Some(Ok(frame)) => text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap()),
            Some(Err(_)) => return (text, false),
            None => return (text, true),
        }
    }
}

#[tokio::test]
async fn a_page_ends_cleanly_behind_its_last_piece_and_in_no_other_way() {
    let whole = body(|page| async move {
        page.write("a").await?;
        page.write("b").await
    });
    assert_eq!(read(whole).await, ("ab".to_owned(), true));
    let broken = body(|page| async move {
        page.write("a").await?;
        Err(PageEnded::Broken("the disk is gone".to_owned()))
    });
    assert_eq!(read(broken).await, ("a".to_owned(), false));
    let gone = body(|page| async move {
        page.write("a").await?;
        Err(PageEnded::Gone)
    });
    assert_eq!(read(gone).await, ("a".to_owned(), false), "a task that just ends is not an end");
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_up_the_writer_and_one_that_goes_ends_it() {
    let (told, mut heard) = mpsc::channel(100);
    let slow = body(|page| async move {
        for piece in 0..100_usize {
            page.write("x").await?;
            told.send(piece).await.map_err(|_| PageEnded::Gone)?;
        }
        Ok(())
    });
    for _ in 0..WAITING {
        assert!(heard.recv().await.is_some());
    }
    tokio::task::yield_now().await;
    assert!(heard.try_recv().is_err(), "no more than {WAITING} wait");
    drop(slow);
    assert_eq!(heard.recv().await, None, "the task is gone");
}
