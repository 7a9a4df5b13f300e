//! An agent that is lost in the middle of a call: the client is told UNAVAILABLE, whatever it was doing, and never OK.

use crate::{LIMIT, note::note, rig::RunningAgent, stage::Stage};
use futures_util::{StreamExt, stream};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Code, Status, codegen::tokio_stream::wrappers::ReceiverStream};

/// How the agent goes: with a word to the hub, or with none because the wire is cut.
#[derive(Debug, Clone, Copy)]
enum Way {
    Stopped,
    Cut,
}

impl Way {
    const ALL: [Self; 2] = [Self::Stopped, Self::Cut];

    fn go(self, agent: &RunningAgent, wire: AbortOnDropHandle<()>) {
        match self {
            Self::Stopped => agent.agent.stop(),
            Self::Cut => drop(wire),
        }
    }
}

fn check(way: Way, status: &Status) {
    assert_eq!(status.code(), Code::Unavailable, "{way:?} {status:?}");
    assert!(status.message().contains("MCT-"), "{way:?} {status:?}");
}

#[tokio::test]
async fn while_the_answer_is_awaited() {
    for way in Way::ALL {
        let (mut stage, wire) = Stage::with_a_wire().await;
        let both = async {
            let call = stage.near.unary("Never", note(1));
            let lose = async {
                stage.far.called().await;
                way.go(&stage.agent, wire);
            };
            tokio::join!(call, lose).0
        };
        check(way, &timeout(LIMIT, both).await.expect("an end").unwrap_err());
    }
}

#[tokio::test]
async fn while_messages_are_sent() {
    for way in Way::ALL {
        let (mut stage, wire) = Stage::with_a_wire().await;
        let notes = stream::iter((0..3).map(note)).chain(stream::pending());
        let both = async {
            let call = stage.near.upload("NeverCollect", notes);
            let lose = async {
                stage.far.called().await;
                way.go(&stage.agent, wire);
            };
            tokio::join!(call, lose).0
        };
        check(way, &timeout(LIMIT, both).await.expect("an end").unwrap_err());
    }
}

#[tokio::test]
async fn while_messages_are_received() {
    for way in Way::ALL {
        let (stage, wire) = Stage::with_a_wire().await;
        let mut answers = stage.near.download("NeverEnd", note(0)).await.unwrap().into_inner();
        assert_eq!(answers.message().await.unwrap(), Some(note(0)));
        way.go(&stage.agent, wire);
        check(way, &timeout(LIMIT, answers.message()).await.expect("an end").unwrap_err());
    }
}

#[tokio::test]
async fn while_messages_go_both_ways() {
    for way in Way::ALL {
        let (stage, wire) = Stage::with_a_wire().await;
        let (notes, sent) = mpsc::channel(1);
        let mut answers = stage.near.both_ways("Chat", ReceiverStream::new(sent)).await.unwrap().into_inner();
        notes.send(note(7)).await.unwrap();
        assert_eq!(answers.message().await.unwrap(), Some(note(7)));
        way.go(&stage.agent, wire);
        check(way, &timeout(LIMIT, answers.message()).await.expect("an end").unwrap_err());
    }
}
