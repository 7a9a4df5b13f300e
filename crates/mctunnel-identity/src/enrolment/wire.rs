//! The messages of `enrol.proto` as prost sees them. What is secret in them does not print.

use super::EnrolError;
use prost::Message;
use std::fmt;

/// The path of the call for the first certificate.
pub const ENROL_PATH: &str = "/mctunnel.enrol.v1.EnrolService/Enrol";
/// The path of the call for the next one.
pub const RENEW_PATH: &str = "/mctunnel.enrol.v1.EnrolService/Renew";
/// The largest message, in bytes.
pub const MOST_MESSAGE_BYTES: usize = 64 * 1024;
/// The longest ServiceAccount token, in bytes.
pub const MOST_TOKEN_BYTES: usize = 16 * 1024;

/// See `enrol.proto`.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "each field is documented in enrol.proto, which this mirrors")]
pub struct EnrolRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub csr: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub lifetime_seconds: u64,
    #[prost(oneof = "Evidence", tags = "3, 4")]
    pub evidence: Option<Evidence>,
}

/// Who vouches for the agent.
#[derive(Clone, PartialEq, prost::Oneof)]
#[expect(missing_docs, reason = "each is documented in enrol.proto, which this mirrors")]
pub enum Evidence {
    #[prost(message, tag = "3")]
    JoinToken(JoinTokenProof),
    #[prost(message, tag = "4")]
    ServiceAccountToken(ServiceAccountToken),
}

/// `JoinToken` of `enrol.proto`.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
#[expect(missing_docs, reason = "each field is documented in enrol.proto, which this mirrors")]
pub struct JoinTokenProof {
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub secret: Vec<u8>,
}

impl fmt::Debug for JoinTokenProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinTokenProof").field("id", &self.id).finish_non_exhaustive()
    }
}

/// See `enrol.proto`.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
#[expect(missing_docs, reason = "each field is documented in enrol.proto, which this mirrors")]
pub struct ServiceAccountToken {
    #[prost(string, tag = "1")]
    pub token: String,
}

impl fmt::Debug for ServiceAccountToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountToken").finish_non_exhaustive()
    }
}

/// See `enrol.proto`.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "each field is documented in enrol.proto, which this mirrors")]
pub struct RenewRequest {
    #[prost(bytes = "vec", tag = "1")]
    pub csr: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub lifetime_seconds: u64,
}

/// See `enrol.proto`.
#[derive(Clone, PartialEq, Message)]
#[expect(missing_docs, reason = "each field is documented in enrol.proto, which this mirrors")]
pub struct IssuedCertificate {
    #[prost(bytes = "vec", tag = "1")]
    pub certificate: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub authorities: Vec<Vec<u8>>,
    #[prost(uint64, tag = "3")]
    pub lifetime_seconds: u64,
}

/// Reads a message that came over the wire.
pub fn decode<M: Message + Default>(bytes: &[u8]) -> Result<M, EnrolError> {
    M::decode(bytes).map_err(|_| EnrolError::Message("it is not the message of this call"))
}

/// A message as it goes over the wire.
pub fn encode(message: &impl Message) -> Vec<u8> {
    message.encode_to_vec()
}
