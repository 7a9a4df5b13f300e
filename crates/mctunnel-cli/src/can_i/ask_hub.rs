//! Puts a question to a hub that runs: one POST to its gateway.

use super::{Answer, page::Asked};
use crate::hub_client::{AskFailed, HubClient, refusal};
use mctunnel_policy::Question;

pub(super) fn ask(hub: &HubClient, question: &Question) -> anyhow::Result<Answer> {
    let Question { who, place: asked_in, what, from } = question.clone();
    // Without a name it is about whoever asks.
    let who = who.user.is_some().then_some(who);
    let body = serde_json::to_string(&Asked { who, place: asked_in, what, from })?;
    let (status, answer) = hub.post("/-/can-i", body)?;
    Ok(read_answer(status, &answer)?)
}

fn read_answer(status: u16, body: &str) -> Result<Answer, AskFailed> {
    match status {
        200 => serde_json::from_str(body).map_err(|_| AskFailed::NotAHub),
        status => Err(refusal(status, body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_none_is_not_a_no() {
        let yes = read_answer(200, r#"{"allowed":true,"rule":"r","question":"q"}"#).unwrap();
        assert!(yes.allowed && yes.rule == "r" && yes.note.is_none());
        for body in ["", "{}", "<html>", r#"{"allowed":"yes","rule":"r","question":"q"}"#] {
            assert!(matches!(read_answer(200, body), Err(AskFailed::NotAHub)), "{body}");
        }
        assert!(matches!(read_answer(403, r#"{"message":"no"}"#), Err(AskFailed::Refused { status: 403, .. })));
    }
}
