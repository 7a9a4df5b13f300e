//! One HTTP exchange on one stream of a tunnel: heads, bodies, trailers, failures, and the switch to plain bytes after an upgrade.
//!
//! It is the framing of `proto/mctunnel/http/v1/http.proto` and nothing else: it dials nothing, routes nothing and knows no HTTP
//! version. The gateway is the asking end, the agent the answering one.
//!
//! ```text
//! gateway   RequestHead  body ... fin                 split(): MessageWriter, MessageReader
//! agent                       Answer  body ... fin
//! ```

mod body;
mod failure;
mod flight;
mod head;
mod read;
mod split;
mod wire;
mod write;

pub use body::MessageBody;
pub use failure::{ExchangeError, Failure};
pub use flight::first_flight;
pub use head::{Answer, BodyKind, RequestHead, ResponseHead};
pub use read::MessageReader;
pub use split::{MessageHalves, split};
pub use write::{MessageWriter, PumpError};
